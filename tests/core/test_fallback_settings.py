"""MODEL_FALLBACKS: the notation of an entry, its details, and what is said when it is wrong."""

from __future__ import annotations

import pytest

from worker.configuration import effective, load
from worker.core.causes import CAUSES, USUAL, cause_of
from worker.core.errors import ConfigError
from worker.core.limits import Status

HERE = {"LOOPWORKER_MODEL_URL": "https://here/v1", "LOOPWORKER_MODEL": "m"}
KEYED = {**HERE, "LOOPWORKER_API_KEY": "sk-first"}
NAME = "LOOPWORKER_MODEL_FALLBACKS"


def read(text, *, env=HERE, file=None, **more):
    """The stand-ins of an environment."""
    return load({**env, NAME: text, **more}, file=file).settings.stand_ins()


@pytest.mark.parametrize(
    ("entry", "model", "url", "causes"),
    [
        ("mini", "mini", "https://here/v1", USUAL),
        ("llama3:8b", "llama3:8b", "https://here/v1", USUAL),
        ("@cf/meta/llama-3", "@cf/meta/llama-3", "https://here/v1", USUAL),
        ("claude@20240229", "claude@20240229", "https://here/v1", USUAL),
        ("mini@https://there/v1", "mini", "https://there/v1", USUAL),
        ("m@http://[::1]:8091/v1", "m", "http://[::1]:8091/v1", USUAL),
        ("long[context_overflow]", "long", "https://here/v1", {"context_overflow"}),
        (
            "a@b@http://10.0.0.1:1/v1[error+ rate_limit]",
            "a@b",
            "http://10.0.0.1:1/v1",
            {"error", "rate_limit"},
        ),
    ],
)
def test_an_entry_says_model_server_and_causes(entry, model, url, causes):
    """Names of models hold colons, slashes and at signs; what is left out is as for the first."""
    (made,) = read(entry)

    assert (made.model, made.url, made.causes) == (model, url, causes)


def test_entries_keep_their_order():
    """The list is the chain."""
    assert [each.name for each in read("b, a@http://x/v1 ,c[quota]")] == ["b", "a", "c"]


def test_details_come_from_the_environment_and_the_file(tmp_path):
    """The section of an entry has its name, spelled with letters, digits and `_`."""
    file = tmp_path / "w.toml"
    file.write_text(
        'model_fallbacks = ["gpt-4o.mini", "spare"]\n'
        '[fallbacks."gpt-4o.mini"]\ntimeout = "90s"\nread_timeout = 20\n'
        '[fallbacks.spare]\nmodel = "big"\nurl = "https://there/v1"\ncauses = ["quota", "auth"]\n'
    )
    env = {**KEYED, "LOOPWORKER_FALLBACKS__GPT_4O_MINI__ATTEMPTS": "2"}
    env["LOOPWORKER_FALLBACKS__SPARE__API_KEY"] = "sk-spare"

    mini, spare = load(env, file=file).settings.stand_ins()

    told = (mini.details.timeout, mini.details.read_timeout, mini.details.attempts)
    assert told == (90.0, 20.0, 2)
    assert (spare.name, spare.model, spare.url) == ("spare", "big", "https://there/v1")
    assert (spare.api_key, spare.causes) == ("sk-spare", {"quota", "auth"})


def test_causes_can_be_given_in_the_environment():
    """As a list with commas or plus signs."""
    env = {"LOOPWORKER_FALLBACKS__A__CAUSES": "error,context_overflow"}

    assert read("a", **env)[0].causes == {"error", "context_overflow"}


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://here/other/v1", "sk-first"),
        ("https://HERE/v1", "sk-first"),
        ("http://here/v1", None),
        ("https://here:8443/v1", None),
        ("https://there/v1", None),
    ],
)
def test_a_key_goes_only_to_the_server_that_it_was_given_for(url, key):
    """Scheme, host and port have to be those of MODEL_URL."""
    assert read(f"a@{url}", env=KEYED)[0].api_key == key


def test_keys_are_masked():
    """Neither the list of settings nor a stand-in shows one."""
    env = {**KEYED, NAME: "a", "LOOPWORKER_FALLBACKS__A__API_KEY": "sk-hidden"}
    loaded = load(env)

    assert "sk-hidden" not in repr(list(effective(loaded)))
    assert "sk-" not in repr(loaded.settings.stand_ins())


def test_two_servers_with_one_model_are_told_apart():
    """Signals and metrics name the host as well."""
    made = read("m@http://a/v1, m@http://b/v1")

    assert [each.name for each in made] == ["m@a", "m@b"]


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({NAME: "a[eror]"}, ["'a[eror]': no such cause: eror; did you mean error?"]),
        ({NAME: "a[xyz]"}, ["no such cause: xyz; causes: error, rate_limit, quota"]),
        ({NAME: "a[]"}, ["names no cause"]),
        ({NAME: "@https://x/v1"}, ["is no entry; write model, model@https://server/v1"]),
        ({NAME: "a@"}, ["'a@' is no entry"]),
        ({NAME: "a@[x]]"}, ["'a@[x]]' is no entry"]),
        ({NAME: "a[error"}, ["'a[error' is no entry"]),
        ({NAME: "a@https://"}, ["'https://' is not an http(s) URL"]),
        ({NAME: "a@https://k:pw@x/v1"}, ["LOOPWORKER_FALLBACKS__A__API_KEY, not into the URL"]),
        ({NAME: "m"}, ["'m' is a model that stands in the chain already"]),
        ({NAME: "a,b,a"}, ["'a' is a model that stands in the chain already"]),
        (
            {NAME: "a", "LOOPWORKER_FALLBACKS__B__ATTEMPTS": "2"},
            ["LOOPWORKER_FALLBACKS__B: no entry of LOOPWORKER_MODEL_FALLBACKS has this name"],
        ),
        (
            {NAME: "a[quota]", "LOOPWORKER_FALLBACKS__A__CAUSES": "error"},
            ["'a[quota]' and LOOPWORKER_FALLBACKS__A say the same thing twice"],
        ),
        (
            {NAME: "a", "LOOPWORKER_FALLBACKS__A__ATEMPTS": "2"},
            ["did you mean LOOPWORKER_FALLBACKS__A__ATTEMPTS?"],
        ),
        (
            {NAME: "a", "LOOPWORKER_FALLBACKS__A__TIMEOUT": "soon"},
            ["LOOPWORKER_FALLBACKS__A__TIMEOUT: must be a time (90, 90s, 1.5m, 2h)"],
        ),
        ({NAME: "a", "LOOPWORKER_MODEL_URL": ""}, ["'a' has no server; set LOOPWORKER_MODEL_URL"]),
    ],
)
def test_a_wrong_entry_is_named_with_what_to_do(env, words):
    """The process ends at once, and the message is enough to mend it."""
    with pytest.raises(ConfigError) as caught:
        load({**HERE, **env})

    for word in words:
        assert word in str(caught.value)
    assert "pw" not in str(caught.value)


def test_sections_that_differ_by_punctuation_alone_are_refused(tmp_path):
    """The environment could not tell them apart."""
    file = tmp_path / "w.toml"
    file.write_text("[fallbacks.a-b]\nattempts = 1\n[fallbacks.a_b]\nattempts = 2\n")

    with pytest.raises(ConfigError, match="same name"):
        load(HERE, file=file)


def test_every_ending_of_a_model_call_is_a_cause_but_the_deadline():
    """A chain knows what to do with whatever a model comes back with."""
    endings = {
        *("model_unavailable", "timeout", "protocol_error", "tool_errors", "error"),
        *("rate_limited", "quota_exhausted", "context_overflow", "auth_error", "bad_request"),
        *("content_filtered", "refused"),
    }

    assert {cause_of(each) for each in endings} == set(CAUSES)
    assert {cause_of(each) for each in set(Status) - endings} == {None}
