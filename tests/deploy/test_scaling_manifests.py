"""The scaling manifests name what the code names: metrics, tables, keys, queues, streams, seconds."""

from __future__ import annotations

import re
import shutil
import time

import psycopg
import pytest
import redis

from tests.deploy.rendering import KUBERNETES, by_kubectl, one, rendered
from tests.servers.postgresserver import own_url as postgres_url
from tests.servers.postgresserver import postgres_server
from tests.servers.redisserver import own_url as redis_url
from tests.servers.redisserver import redis_server
from worker.configuration import load
from worker.core.sharding import Sharding, shard_name
from worker.queues import open_queue
from worker.queues.nats_names import intake_of
from worker.queues.nats_streams import TAKERS
from worker.queues.port import Ticket
from worker.queues.rabbit_names import RabbitNames
from worker.telemetry.catalogue import CATALOGUE

BROKERS = ("postgresql", "redis", "rabbitmq", "nats")
SHARDS = [shard_name("tasks", number) for number in (0, 1, 12)]


WAYS = [("keda",), *(("keda", f"broker-{name}") for name in BROKERS)]
KUBECTL = shutil.which("kubectl")


@pytest.fixture(params=WAYS, ids=["keda", *BROKERS])
def objects(request):
    """The base with KEDA, alone and with each broker."""
    return rendered(*request.param)


def triggers(*components):
    """The triggers by their names."""
    spec = one(rendered("keda", *components), "ScaledObject")["spec"]
    return {each["name"]: each for each in spec["triggers"]}


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
@pytest.mark.parametrize("components", WAYS, ids=["keda", *BROKERS])
def test_kubectl_renders_the_same(components, tmp_path):
    """What is checked here is what would be applied."""

    def listed(objects):
        return sorted(objects, key=lambda each: each["kind"])

    assert listed(by_kubectl(KUBECTL, tmp_path, *components)) == listed(rendered(*components))


def settings_of(deployment):
    """What a worker of this deployment has for settings, with the places that a Secret would give."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"]}
    return load({"LOOPWORKER_MODEL_URL": "http://model/v1", **given}).settings


def test_the_scaler_finds_its_deployment(objects):
    """And every trigger has a name of its own and a threshold that fits the slots of a worker."""
    deployment, scaled = one(objects, "Deployment"), one(objects, "ScaledObject")
    spec = scaled["spec"]
    named = {each.get("name") for each in spec["triggers"]}
    slots = str(settings_of(deployment).concurrency)
    modifiers = spec["advanced"].get("scalingModifiers", {})

    assert spec["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert len(named) == len(spec["triggers"]) and None not in named
    for trigger in spec["triggers"]:
        values = {k: v for k, v in trigger["metadata"].items() if k in THRESHOLDS}
        is_age = trigger["name"] == "oldest"
        assert list(values.values()) == ["60" if is_age else slots], trigger
        assert trigger.get("metricType", "AverageValue") == ("Value" if is_age else "AverageValue")
    if modifiers:
        assert modifiers["target"] == slots
        assert set(re.findall(r"\w+", modifiers["formula"])) == named


THRESHOLDS = {
    *("threshold", "targetQueryValue", "listLength", "streamLength", "value", "lagThreshold"),
}


def test_a_trigger_that_needs_a_secret_names_it(objects):
    """Each reference leads to an object that is rendered with it."""
    known = {
        each["metadata"]["name"] for each in objects if each["kind"] == "TriggerAuthentication"
    }
    asked = {
        trigger["authenticationRef"]["name"]
        for trigger in one(objects, "ScaledObject")["spec"]["triggers"]
        if "authenticationRef" in trigger
    }

    assert asked == known


def test_it_shrinks_more_slowly_than_it_grows(objects):
    """And not before a pod that has just left could have drained."""
    advanced = one(objects, "ScaledObject")["spec"]["advanced"]
    behavior = advanced["horizontalPodAutoscalerConfig"]["behavior"]
    up, down = (
        {each["type"]: each["value"] / each["periodSeconds"] for each in behavior[way]["policies"]}
        for way in ("scaleUp", "scaleDown")
    )
    grace = one(objects, "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]

    assert all(down[kind] * 4 < up[kind] for kind in ("Percent", "Pods"))
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] > grace
    assert behavior["scaleUp"]["stabilizationWindowSeconds"] == 0


def test_the_platform_waits_for_the_drain(objects):
    """The grace is more than the drain and 5 s, and the worker knows it."""
    deployment = one(objects, "Deployment")
    settings = settings_of(deployment)
    grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]

    assert grace > settings.worker.drain_seconds + 5
    assert settings.worker.termination_grace_seconds == grace


def test_nobody_scales_to_zero_who_could_not_come_back(objects):
    """One worker stays by default; where nobody else measures, the manifest says why."""
    assert one(objects, "ScaledObject")["spec"]["minReplicaCount"] >= 1
    text = (KUBERNETES / "components" / "keda" / "scaledobject.yaml").read_text()
    assert "Never zero" in text


def test_queries_ask_for_metrics_of_the_catalogue():
    """With labels and values that these have, and for every shard."""
    catalogue = {metric.name: metric for metric in CATALOGUE}
    for trigger in triggers().values():
        (found,) = re.findall(r"(loopworker_\w+)\{([^}]*)\}", trigger["metadata"]["query"])
        metric, matchers = catalogue[found[0]], dict(re.findall(r'(\w+)=~"([^"]*)"', found[1]))
        assert set(matchers) <= set(metric.labels)
        assert all(re.fullmatch(matchers["queue"], name) for name in SHARDS)
        assert not re.fullmatch(matchers["queue"], "results")
        states = matchers.get("state", "ready").split("|")
        assert set(states) <= {"ready", "delayed", "leased", "parked", "dead"}


@pytest.mark.system
async def test_postgresql_is_asked_for_what_wants_a_slot():
    """On a real server: ready, leased and due tasks of all shards, by indexes alone."""
    asked = {name: t["metadata"]["query"] for name, t in triggers("broker-postgresql").items()}
    with postgres_server() as server:
        url = postgres_url(server.port)
        queue = open_queue(url, sharding=Sharding(3))
        for number in range(30):
            await queue.put(Ticket(f"t{number}", b"?"))
        leases = await queue.claim(owner="w", lease_seconds=600, wait_seconds=0, limit=6)
        soon = {"delay_seconds": 0.001, "counted": False, "reason": "x"}
        await queue.nack(leases[0], **soon)
        await queue.nack(leases[1], **(soon | {"delay_seconds": 3600}))
        await queue.ack(leases[2])
        await queue.dead_letter(leases[3], reason="x")
        await queue.put(Ticket("later", b"?", not_before=time.time() + 3600))
        await queue.sibling("results").put(Ticket("r", b"?"))
        answers, plans = told_by_postgres(url, asked)
        await queue.close()

    assert answers["tasks"] == 30 - 3  # parked for long, done and dead want none
    assert 0 <= answers["oldest"] < 60
    assert not any("Seq Scan" in plan for plan in plans)


def told_by_postgres(url, asked):
    """What the queries of the manifest say, and how they would be done on a large table."""
    address, _, schema = url.partition("?schema=")
    answers, plans = {}, []
    with psycopg.connect(address, options="-c enable_seqscan=off") as connection:
        for name, query in asked.items():
            query = query.replace("loopworker.task", f"{schema}.task")
            answers[name] = connection.execute(query).fetchone()[0]
            plans += [row[0] for row in connection.execute(f"explain {query}")]
    return answers, plans


@pytest.mark.system
async def test_redis_is_asked_for_keys_that_hold_tasks(tmp_path):
    """On a real server: the sorted sets of ready and leased tasks, and the stream."""
    asked = triggers("broker-redis")
    with redis_server(tmp_path) as server:
        queue = open_queue(redis_url(server.port))
        for number in range(5):
            await queue.put(Ticket(f"t{number}", b"?"))
        await queue.claim(owner="w", lease_seconds=600, wait_seconds=0, limit=2)
        prefix = queue._link.settings.prefix
        counts = {}
        with redis.Redis(port=server.port) as client:
            for name in ("ready", "leased"):
                key = asked[name]["metadata"]["listName"].replace("{", "{" + prefix)
                assert client.type(key) == b"zset"
                counts[name] = client.zcard(key)
            stream = prefix + asked["incoming"]["metadata"]["stream"]
            client.xadd(stream, {"payload": "hello"})
            counts["incoming"] = client.xlen(stream)
        await queue.close()

    assert counts == {"ready": 3, "leased": 2, "incoming": 1}


def test_rabbitmq_is_asked_for_queues_whose_tasks_want_a_slot():
    """All bands and what is due, of every shard; nothing dead or hidden, nor another queue's."""
    pattern = triggers("broker-rabbitmq")["tasks"]["metadata"]["queueName"]
    for shard in SHARDS:
        names = RabbitNames(shard)
        wanted = {*(name for band in names.bands for name in band), names.due}
        assert {name for name in names.everything() if re.search(pattern, name)} == wanted
        assert not re.search(pattern, names.bell)
    assert not any(re.search(pattern, name) for name in RabbitNames("results").everything())


def test_nats_is_asked_for_what_no_worker_has_taken_in():
    """Besides Prometheus, which knows the tasks."""
    found = triggers("broker-nats")
    incoming = found["incoming"]["metadata"]

    assert set(found) == {"tasks", "oldest", "incoming"}
    assert (incoming["stream"], incoming["consumer"]) == (intake_of("tasks")[0], TAKERS)
