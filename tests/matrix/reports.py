"""Faults of other queues and workers that people have reported, and what holds them off here.

Each has a number, and names tests, or faults of the matrix. `test_reports.py` sees that they exist.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Report:
    """One of them: where it was reported, what went wrong there, and what covers it."""

    number: int
    places: str
    trouble: str
    tests: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    note: str = ""  # what else is to be said of it


_KILL = "tests/system/test_kill.py::"
_SERVERS = "tests/system/test_broker_kill.py::"
_DRAIN = "tests/system/test_drain.py::"
_STALE = "tests/system/test_stale.py::"
_REDIS = "tests/conformance/test_redis_queue.py::TestRedisQueue::"
_NATS = "tests/conformance/test_nats_queue.py::TestNatsQueue::"
_POSTGRES = "tests/conformance/test_postgres_queue.py::TestPostgresQueue::"
_REDIS_ONLY = "tests/queues/test_redis_open.py::"
_NATS_ONLY = "tests/queues/test_nats_open.py::"
_RABBIT_ONLY = "tests/queues/test_rabbit_open.py::"
_POSTGRES_NETWORK = "tests/queues/test_postgres_network.py::"
_RESUMING = "tests/running/test_resuming.py::"
_ENDS_OF_CLAIMS = "tests/running/test_ends_of_claims.py::"

_LEASES = (
    Report(
        1,
        "celery/celery#5935, celery/celery#5306, celery/kombu#337",
        "a task that lasts longer than its lease is begun again with each lease",
        (
            _SERVERS + "test_a_task_of_many_leases_is_begun_once",
            _STALE + "test_living_worker_keeps_its_task",
        ),
    ),
    Report(
        2,
        "taskiq-python/taskiq-redis#101, taskiq-python/taskiq-redis#86",
        "what is idle for ten minutes is claimed by others, however alive its worker is",
        (
            _SERVERS + "test_a_task_of_many_leases_is_begun_once",
            _REDIS + "test_q03_extend_counts_from_now",
        ),
    ),
    Report(
        3,
        "hexpm/hexpm#1825, riverqueue/river#682, riverqueue/river#773",
        "rescue by the time that has passed: too early for long tasks, hours late for dead workers",
        (
            _KILL + "test_waiting_worker_takes_over_within_the_lease",
            _STALE + "test_living_worker_keeps_its_task",
        ),
        ("kill -9: opened", "kill -9: result saved"),
    ),
    Report(
        4,
        "python-arq/arq#343, python-arq/arq#402, python-arq/arq#407",
        "the task of a killed worker waits for the longest time limit of all functions",
        (_KILL + "test_waiting_worker_takes_over_within_the_lease",),
        ("kill -9: received", "kill -9: effect done"),
    ),
    Report(
        5,
        "nats-io/nats-server#4786, nats-io/nats.java#1042",
        "who lost a message settles it all the same, under the hands of its next owner",
        (
            _NATS + "test_q06_lost_lease",
            _STALE + "test_stopped_worker_is_fenced_when_it_goes_on",
        ),
        ("SIGSTOP for longer than the lease",),
    ),
)
_DEAD_WORKERS = (
    Report(
        7,
        "taskiq-python/taskiq-redis#131",
        "a worker is killed with the lock of the rescue in hand: nothing is ever rescued again",
        (
            _REDIS_ONLY + "test_a_task_of_a_dead_worker_comes_back_on_a_quiet_queue",
            _REDIS + "test_q28_lapses",
        ),
    ),
    Report(
        8,
        "taskiq-redis 1.2.4",
        "the tasks of the dead are looked for only when something new has come",
        (_REDIS_ONLY + "test_a_task_of_a_dead_worker_comes_back_on_a_quiet_queue",),
    ),
    Report(
        9,
        "taskiq-python/taskiq-redis#130, ebongard/renfield#886",
        "the tasks of the dead are looked for at the start only, or never",
        (
            _REDIS_ONLY + "test_a_task_of_a_dead_worker_comes_back_on_a_quiet_queue",
            _KILL + "test_waiting_worker_takes_over_within_the_lease",
        ),
    ),
    Report(
        10,
        "ThreeDotsLabs/watermill-redisstream#24, redis/redis#9745",
        "a consumer is deleted, and what it had in hand with it",
        (
            _REDIS_ONLY + "test_no_script_removes_what_is_not_settled",
            _REDIS + "test_q19_close",
        ),
    ),
    Report(
        11,
        "procrastinate-org/procrastinate#307, procrastinate-org/procrastinate#740, "
        "procrastinate-org/procrastinate#1408",
        "the rescue of tasks is a task itself, and needs to be rescued",
        (_POSTGRES + "test_q04_expiry", _POSTGRES + "test_q28_lapses"),
        ("kill -9: received",),
    ),
    Report(
        13,
        "oban-bg/oban#862, sidekiq/sidekiq#4635, sidekiq/sidekiq#3196",
        "rescue by the name of the host, at the start: after two quick restarts nobody remembers",
        (_KILL + "test_worker_that_dies_at_every_write_gets_there",),
        ("rolling restart, twice within a lease",),
    ),
)
_CONNECTIONS = (
    Report(
        16,
        "celery/celery#8030, celery/celery#8384, celery/celery#9054, celery/celery#10205",
        "after a restart of the server the worker is connected, well, and takes nothing any more",
        (
            _SERVERS + "test_broker_that_is_killed_and_comes_back_loses_nothing",
            _ENDS_OF_CLAIMS + "test_claims_that_do_not_come_back_are_told",
        ),
        ("broker killed and back: idle", "broker killed and back: receive"),
    ),
    Report(
        17,
        "mosquito/aio-pika#501, taskiq-python/taskiq-aio-pika#59",
        "an ack over a connection that is gone hangs, raises, or returns as if all were well",
        (_RABBIT_ONLY + "test_who_is_cut_off_has_lost_its_lease",),
        ("broker killed and back: task", "broker killed and back: ack"),
    ),
    Report(
        18,
        "mosquito/aio-pika#563",
        "the network forgets a connection: connected anew, and nothing is consumed",
        ("tests/queues/test_linked_queues.py::test_a_network_that_goes_silent_is_an_outage",),
        ("half-open connection",),
    ),
    Report(
        19,
        "amqp-rs/lapin#357, cody-greene/node-rabbitmq-client#33, php-amqplib/php-amqplib#925, "
        "mosquito/aio-pika#288",
        "the server takes a task away that lasts long, and closes the channel",
        (
            _RABBIT_ONLY + "test_doctor_tells_of_a_server_that_takes_long_tasks_away",
            _RABBIT_ONLY + "test_who_is_cut_off_has_lost_its_lease",
        ),
    ),
    Report(
        20,
        "taskforcesh/bullmq#4729, bensheldon/good_job#303, timgit/pg-boss#850, "
        "hatchet-dev/hatchet#2771, graphile/worker#541",
        "after a restart nobody listens for notifications, and the worker slows down or stops",
        (
            _POSTGRES_NETWORK + "test_a_notification_wakes_a_waiting_claim",
            _POSTGRES_NETWORK + "test_a_restarted_server_fails_no_call",
            _POSTGRES_NETWORK + "test_a_silent_network_is_an_outage_within_its_time",
        ),
        ("broker killed and back: receive", "half-open connection"),
    ),
    Report(
        21,
        "nats-io/nats-server#4736, nats-io/nats-server#5839, nats-io/nats.rs#860",
        "a restart of the server forgets who waits for messages",
        (
            "tests/queues/test_linked_queues.py::test_a_waiting_claim_hears_of_the_end_of_its_connection",
        ),
        ("broker killed and back: receive",),
    ),
    Report(
        22,
        "nats-io/nats-server#6093",
        "delayed messages fill the bound of what may be unacknowledged, and nothing else comes",
        (_NATS_ONLY + "test_delayed_tasks_leave_room_for_others",),
    ),
    Report(
        23,
        "nats-io/nats-server#5526, nats-io/nats-server#7564",
        "a stream that is updated at the start loses delayed messages; acknowledged ones are not "
        "on the disk",
        (
            _NATS_ONLY + "test_a_worker_that_starts_leaves_delayed_tasks_alone",
            _NATS_ONLY + "test_a_stream_that_may_lose_tasks_is_refused",
        ),
        ("broker killed and back: submit",),
        "a loss of power is not tested; the README says what writes each change to the disk",
    ),
    Report(
        24,
        "redis/redis-py#2624, redis/redis-py#2665, redis/redis-py#2579",
        "a cancelled call leaves its answer to the next one, or loses what it had been given",
        (
            "tests/queues/test_redis_network.py::test_a_cancel_is_heard_whenever_it_comes",
            _REDIS + "test_q16_cancelled_claims",
            "tests/conformance/test_redis_store.py::TestRedisStore::test_j13_cancelled_appends",
        ),
        ("cancel storm",),
    ),
)
_POISON = (
    Report(
        25,
        "taskiq-python/taskiq-aio-pika#35, OasisLMF/OasisPlatform#975, sidekiq/sidekiq#4633, "
        "Bogdanp/dramatiq#383",
        "a task that kills its worker is delivered for ever",
        (
            "tests/system/test_poison.py::test_poison_is_given_up_and_hurts_nobody",
            _REDIS + "test_q09_too_many_deliveries",
        ),
        ("poison that kills the process",),
    ),
    Report(
        27,
        "rabbitmq/rabbitmq-server#11937",
        "the server gives a message up after twenty deliveries and drops it",
        (
            _RABBIT_ONLY + "test_what_the_server_gives_up_lies_in_the_dead_letters",
            _RABBIT_ONLY + "test_a_queue_that_is_set_up_otherwise_is_refused",
        ),
    ),
    Report(
        28,
        "taskiq 0.13",
        "what cannot be read, or is for a newer worker, is acknowledged and gone",
        (
            "tests/system/test_bad_input.py::test_bad_tasks_of_the_queue_are_rejected_by_name",
            _RESUMING + "test_a_run_of_a_newer_worker_is_handed_back_not_given_up",
            _RABBIT_ONLY + "test_messages_of_other_programs",
        ),
    ),
    Report(
        29,
        "redis/redis#6199, redis/redis#10756, redis/redis#5774",
        "a stream that is cut to a length loses what nobody has settled",
        (
            _REDIS_ONLY + "test_no_script_removes_what_is_not_settled",
            _REDIS + "test_q25_full",
        ),
    ),
    Report(
        30,
        "redis/redis#6576, sidekiq/sidekiq#2883, taskforcesh/bullmq#2215",
        "a server that is short of memory throws tasks away",
        (
            _REDIS_ONLY + "test_a_server_that_may_throw_tasks_away_is_refused",
            _REDIS_ONLY + "test_a_server_that_begins_to_throw_tasks_away_is_found_out",
        ),
        ("full memory",),
    ),
    Report(
        31,
        "taskiq-redis, FastStream",
        "what was put in before the first worker came is never read",
        (_REDIS_ONLY + "test_a_task_put_in_by_another_program_is_taken",),
        ("kill -9 in submit, after the confirm",),
    ),
)
_SHUTDOWN = (
    Report(
        32,
        "celery/celery#4354, celery/kombu#1836, apache/airflow#21225",
        "a worker that is told to end loses the task that is just coming in",
        (
            _REDIS + "test_q16_cancelled_claims",
            _ENDS_OF_CLAIMS + "test_a_drain_ends_the_claim_and_leaves_no_cancellation_behind",
            _DRAIN + "test_signal_during_the_start_ends_the_worker",
        ),
        ("rolling restart, twice within a lease",),
    ),
    Report(
        33,
        "taskiq-python/taskiq#380",
        "a task that is cancelled by the end of its worker is acknowledged",
        (
            _DRAIN + "test_drain_finishes_what_it_can_and_hands_the_rest_back",
            _DRAIN + "test_second_signal_hands_everything_back",
        ),
    ),
    Report(
        35,
        "oban-bg/oban#856, temporalio/sdk-python#367",
        "parts of a worker drain one after another, or the signal does not reach them",
        (
            _DRAIN + "test_drain_finishes_what_it_can_and_hands_the_rest_back",
            "tests/supervising/test_supervisor.py::test_all_are_started_and_ended_together",
        ),
    ),
)
_STORAGE = (
    Report(
        37,
        "jentic-one#529, codeigniter4/queue#86",
        "SQLite: read, then write in one transaction: the database is locked at once",
        (
            "tests/queues/test_sqlite_processes.py::test_eight_processes_claim_two_thousand_tasks",
            "tests/queues/test_sqlite_file.py::test_the_event_loop_goes_on_while_the_file_is_locked",
        ),
    ),
    Report(
        38,
        "khive#1876, loreai#1221, superseriousbusiness/gotosocial#2808, openclaw/openclaw#112950",
        "SQLite: a long reader, or many busy ones, let the log grow to gigabytes",
        (
            "tests/queues/test_sqlite_file.py::test_the_log_shrinks_after_a_reader_has_left",
            "tests/queues/test_sqlite_at_once.py::test_the_log_is_tended_in_between",
        ),
    ),
    Report(
        40,
        "que-rb/que#297, PgQue#80",
        "PostgreSQL: a transaction that stays open keeps dead rows, and claims slow down",
        (
            _POSTGRES_NETWORK + "test_no_transaction_is_open_while_a_task_is_worked_at",
            _POSTGRES_NETWORK + "test_a_transaction_that_goes_silent_holds_nobody_up",
        ),
    ),
)
_AGENTS = (
    Report(
        42,
        "microsoft/agent-framework#3938",
        "two of three tools have worked when the third one crashes: all are called again",
        (
            _RESUMING + "test_of_calls_side_by_side_those_that_returned_are_not_made_again",
            _KILL + "test_killed_run_is_finished_by_the_next_worker",
        ),
        ("kill -9: result saved",),
    ),
    Report(
        44,
        "openai/openai-agents-python#4254, crewAIInc/crewAI#5802",
        "the model is asked again after a crash, and its calls have other ids and arguments",
        (_RESUMING + "test_a_reply_that_is_journaled_is_not_asked_for_again",),
        ("kill -9: model saved",),
    ),
    Report(
        46,
        "aio-libs/aiokafka#848",
        "Kafka: a task that lasts long costs the consumer its place, for ever",
        note="there is no queue on Kafka",
    ),
)

REPORTS = (
    *_LEASES,
    *_DEAD_WORKERS,
    *_CONNECTIONS,
    *_POISON,
    *_SHUTDOWN,
    *_STORAGE,
    *_AGENTS,
)
