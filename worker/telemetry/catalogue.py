"""The metric catalogue: every name, label, bucket and meaning, once.

Public: names, labels and buckets do not change without a new major version, and
`tests/surface/metric_catalogue.txt` holds a copy. Dashboards and alert rules take names from here.

Labels are closed sets. What is not known when the worker starts (a name that the model invented, a
dependency too many) becomes `_unknown` or `_other`, so the number of series has a bound whatever
the outside sends.
"""

from __future__ import annotations

from dataclasses import dataclass

from worker.core.limits import Status
from worker.telemetry.signals import ERROR_TYPES

UNKNOWN = "_unknown"  # a tool that the model invented
OTHER = "_other"  # one name too many

# Powers of two from where a call is instant to where somebody has given up; objectives stand on an
# edge, or a ratio could not be read from the histogram.
CALL_BUCKETS = tuple(0.01 * 2**k for k in range(14))  # 10 ms … 82 s
RUN_BUCKETS = tuple(round(0.1 * 2**k, 1) for k in range(14))  # 0.1 s … 819 s
COUNT_BUCKETS = tuple(float(2**k) for k in range(8))  # 1 … 128
BYTE_BUCKETS = tuple(float(64 * 4**k) for k in range(9))  # 64 B … 4 MiB
LAG_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

ERROR_TYPE_VALUES = ("none", *sorted(ERROR_TYPES))
SOURCES = ("live", "alternative", "stale", "stub", "error", "skipped", "unknown")
BREAKER_STATES = ("closed", "open", "half_open", "forced_open", "disabled")
# Transitions without an operator; the forced ones are made when they happen.
BREAKER_STEPS = (
    ("closed", "open"),
    ("open", "half_open"),
    ("half_open", "open"),
    ("half_open", "closed"),
)

# Label -> its closed set of values.
VOCABULARY: dict[str, tuple[str, ...]] = {
    "status": ("success", "error"),
    "outcome": ("success", "error"),
    "error_type": ERROR_TYPE_VALUES,
    "direction": ("input", "output"),
    "source": SOURCES,
    "from_state": BREAKER_STATES,
    "to_state": BREAKER_STATES,
    "signal": ("traces", "metrics", "logs"),
}
# Label -> how many names it may have beside `_other` (and `_unknown` for tools).
NAMES_MAX: dict[str, int] = {
    "queue": 4,
    "tool": 32,
    "breaker": 40,
    "provider": 4,
    "model": 8,
    "target": 46,
    "fallback": 11,  # the rungs of a tool, and the models that stand in
    "version": 2,
    "python": 2,
    "revision": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One family. `values` narrows a label's vocabulary for this metric."""

    name: str
    kind: str  # counter | gauge | histogram | info
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def allowed(self, label: str) -> tuple[str, ...] | None:
        """Return the closed set of a label here, or None where names are admitted up to a bound."""
        return dict(self.values).get(label) or VOCABULARY.get(label)


CATALOGUE: list[Metric] = []


def _add(kind: str, name: str, help: str, /, *labels: str, **more: tuple[object, ...]) -> Metric:
    buckets = more.pop("buckets", ())
    metric = Metric(
        name=f"loopworker_{name}",
        kind=kind,
        help=help,
        labels=labels,
        buckets=tuple(float(str(edge)) for edge in buckets),
        values=tuple((label, tuple(map(str, values))) for label, values in more.items()),
    )
    CATALOGUE.append(metric)
    return metric


def _counter(name: str, help: str, /, *labels: str, **more: tuple[object, ...]) -> Metric:
    return _add("counter", name, help, *labels, **more)


def _gauge(name: str, help: str, /, *labels: str, **more: tuple[object, ...]) -> Metric:
    return _add("gauge", name, help, *labels, **more)


def _histogram(name: str, help: str, /, *labels: str, **more: tuple[object, ...]) -> Metric:
    return _add("histogram", name, help, *labels, **more)


# --- queue ----------------------------------------------------------------------------------------

QUEUE_TASKS = _gauge(
    "queue_tasks",
    "Tasks in the queue by state, as last measured.",
    "queue",
    "state",
    state=("ready", "delayed", "leased", "parked", "dead"),
)
QUEUE_OLDEST = _gauge(
    "queue_oldest_message_age_seconds", "Age of the oldest task that could be claimed.", "queue"
)
QUEUE_UNSETTLED = _gauge(
    "queue_unsettled_messages", "Tasks that this worker has claimed and not settled.", "queue"
)
QUEUE_RECEIVED = _counter("queue_messages_received_total", "Tasks claimed.", "queue")
QUEUE_SETTLED = _counter(
    "queue_messages_settled_total",
    "Tasks settled, by what the queue was told.",
    "queue",
    "outcome",
    outcome=("ack", "retry", "park", "release", "dead_letter", "discard"),
)
QUEUE_REDELIVERIES = _counter(
    "queue_redeliveries_total", "Tasks claimed that had been delivered before.", "queue"
)
QUEUE_POISON = _counter(
    "queue_poison_messages_total",
    "Tasks that could not be read.",
    "queue",
    "reason",
    reason=("invalid_json", "schema", "too_large", "bad_headers"),
)
QUEUE_RECEIVE_ERRORS = _counter(
    "queue_receive_errors_total", "Claims that failed.", "queue", "error_type"
)
QUEUE_RENEWALS = _counter(
    "queue_lease_renewals_total", "Heartbeats, by outcome.", "queue", "outcome"
)
QUEUE_WAIT = _histogram(
    "queue_wait_seconds", "Time from submit to claim.", "queue", buckets=RUN_BUCKETS
)
DEAD_LETTERS = _counter(
    "dead_letters_total",
    "Tasks given up, by cause.",
    "queue",
    "reason",
    reason=("rejected", "deliveries", "permanent", "corrupt"),
)
LEASES_LOST = _counter("leases_lost_total", "Leases that another worker took over.", "queue")
FENCED_WRITES = _counter(
    "fenced_writes_total", "Writes to a journal that were refused: a newer owner exists."
)
TAKEOVERS = _counter("takeovers_total", "Runs opened whose earlier owner had not let go.")

# --- runs and steps -------------------------------------------------------------------------------

RUNS = _counter(
    "runs_total",
    "Runs ended; status is the operators' word, reason the ending.",
    "status",
    "reason",
    reason=tuple(Status),
)
RUN_DURATION = _histogram(
    "run_duration_seconds", "Duration of an ended run.", "status", buckets=RUN_BUCKETS
)
RUN_STEPS = _histogram("run_steps", "Steps of an ended run.", "status", buckets=COUNT_BUCKETS)
RUN_MODEL_CALLS = _histogram("run_model_calls", "Model calls of a run.", buckets=COUNT_BUCKETS)
RUN_TOOL_CALLS = _histogram("run_tool_calls", "Tool calls of a run.", buckets=COUNT_BUCKETS)
RUNS_IN_PROGRESS = _gauge("runs_in_progress", "Runs going on in this worker.")
DEGRADED_RUNS = _counter(
    "degraded_runs_total", "Ended runs whose answer rests on a substitute for at least one result."
)
RUN_SYMPTOMS = _counter(
    "run_symptoms_total",
    "Symptoms of a sick loop found in ended runs.",
    "symptom",
    symptom=("no_call", "repeated_call", "no_answer", "invented_value", "broken_rule"),
)
STEPS = _counter(
    "steps_total",
    "Steps by outcome.",
    "outcome",
    outcome=("tool_calls", "final_answer", "error"),
)
STEP_DURATION = _histogram("step_duration_seconds", "Duration of a step.", buckets=CALL_BUCKETS)

# --- model ----------------------------------------------------------------------------------------

MODEL_CALLS = _counter(
    "model_calls_total",
    "Logical calls of the model, retries inside.",
    "provider",
    "model",
    "outcome",
    "error_type",
)
MODEL_DURATION = _histogram(
    "model_call_duration_seconds",
    "Duration of a logical model call.",
    "provider",
    "model",
    "outcome",
    buckets=CALL_BUCKETS,
)
MODEL_FIRST_CHUNK = _histogram(
    "model_time_to_first_chunk_seconds",
    "Time to the first chunk of a streamed reply.",
    "provider",
    "model",
    buckets=CALL_BUCKETS,
)
MODEL_TOKENS = _counter(
    "model_tokens_total", "Tokens, as the server counted.", "provider", "model", "direction"
)
MODEL_CACHED = _counter(
    "model_cached_input_tokens_total", "Input tokens from a cache (subset).", "provider", "model"
)
MODEL_REASONING = _counter(
    "model_reasoning_output_tokens_total", "Reasoning tokens (subset).", "provider", "model"
)
MODEL_COST = _counter(
    "model_cost_usd_total", "Estimated cost, where prices are configured.", "provider", "model"
)
MODEL_FINISH = _counter(
    "model_finish_reasons_total",
    "Replies by finish reason.",
    "provider",
    "model",
    "reason",
    reason=("stop", "length", "tool_calls", "content_filter", "error", "other"),
)

# --- tools ----------------------------------------------------------------------------------------

TOOL_CALLS = _counter(
    "tool_calls_total",
    "Tool calls as the loop saw them; a rejection by an open breaker is an error.",
    "tool",
    "outcome",
    "error_type",
)
TOOL_DURATION = _histogram(
    "tool_call_duration_seconds",
    "Duration of a tool call, retries and fallbacks inside.",
    "tool",
    "outcome",
    buckets=CALL_BUCKETS,
)
TOOL_RESULT_SIZE = _histogram(
    "tool_result_size_bytes", "Size of a result before it is cut.", "tool", buckets=BYTE_BUCKETS
)
TOOL_IN_PROGRESS = _gauge("tool_calls_in_progress", "Tool calls going on.", "tool")
TOOL_RESULTS = _counter(
    "tool_results_total", "Tool calls by where the result came from.", "tool", "source"
)

# --- guard ----------------------------------------------------------------------------------------

BREAKER_STATE = _gauge(
    "circuit_breaker_state",
    "1 for the state that a breaker is in.",
    "breaker",
    "state",
    state=BREAKER_STATES,
)
BREAKER_TRANSITIONS = _counter(
    "circuit_breaker_transitions_total",
    "Changes of a breaker's state.",
    "breaker",
    "from_state",
    "to_state",
)
BREAKER_CALLS = _counter(
    "circuit_breaker_calls_total",
    "Verdicts that reached a breaker; rejected calls were not made.",
    "breaker",
    "result",
    result=("success", "failure", "slow", "ignored", "rejected", "late"),
)
BREAKER_FAILURES = _gauge(
    "circuit_breaker_failure_ratio", "Share of failures in a breaker's window.", "breaker"
)
BREAKER_SLOW = _gauge(
    "circuit_breaker_slow_call_ratio", "Share of slow calls in a breaker's window.", "breaker"
)
BREAKER_OPENED = _gauge(
    "circuit_breaker_opened_timestamp_seconds",
    "When a breaker left the closed state; 0 while closed.",
    "breaker",
)
BREAKER_OVERRIDE = _gauge(
    "breaker_override",
    "1 while an operator holds a breaker.",
    "breaker",
    "kind",
    kind=("open", "closed"),
)
RETRY_KINDS = ("tool", "model", "queue", "session_store")
RETRIES = _counter(
    "retries_total", "Retries scheduled.", "kind", "target", "reason",
    kind=RETRY_KINDS, reason=ERROR_TYPE_VALUES,
)  # fmt: skip
RETRIES_EXHAUSTED = _counter(
    "retries_exhausted_total", "Calls that got no further attempt.", "kind", "target",
    kind=RETRY_KINDS,
)  # fmt: skip
RETRY_BUDGET = _gauge(
    "retry_budget_ratio", "What is left of the retry budget, 0 to 1.", "kind", kind=RETRY_KINDS
)
FALLBACKS = _counter(
    "fallbacks_total",
    "Stand-ins that were tried: the rungs of a tool's ladder, or another model.",
    "kind",
    "target",
    "fallback",
    "outcome",
    kind=RETRY_KINDS,
)

# --- store ----------------------------------------------------------------------------------------

JOURNAL_APPEND = _histogram(
    "journal_append_seconds", "Duration of one append to a journal.", buckets=LAG_BUCKETS
)
SESSION_OPERATIONS = ("load", "save", "delete", "lock")
SESSION_CALLS = _counter(
    "session_store_operations_total",
    "Operations on sessions.",
    "operation",
    "outcome",
    operation=SESSION_OPERATIONS,
    outcome=("success", "error", "conflict", "miss"),
)
SESSION_DURATION = _histogram(
    "session_store_operation_duration_seconds",
    "Duration of an operation on sessions.",
    "operation",
    operation=SESSION_OPERATIONS,
    buckets=LAG_BUCKETS,
)
SESSION_SIZE = _histogram("session_size_bytes", "Size of a saved session.", buckets=BYTE_BUCKETS)

# --- worker ---------------------------------------------------------------------------------------

WORKER_INFO = _add("info", "worker_info", "What runs here.", "version", "python", "revision")
WORKER_STATE = _gauge(
    "worker_state",
    "1 for the state that the worker is in.",
    "state",
    state=("starting", "running", "draining", "stopped"),
)
WORKER_READY = _gauge("worker_ready", "1 while the worker claims tasks.")
WORKER_SLOTS = _gauge("worker_slots", "Runs that may go on at once.")
WORKER_SLOTS_IN_USE = _gauge("worker_slots_in_use", "Runs that hold a slot.")
LOOP_LAG = _histogram(
    "worker_event_loop_lag_seconds",
    "How late the event loop answered, once per tick.",
    buckets=LAG_BUCKETS,
)
LOOP_LAG_MAX = _gauge("worker_event_loop_lag_max_seconds", "The worst lag since the last scrape.")
LAST_PROGRESS = _gauge(
    "worker_last_progress_timestamp_seconds", "When a step, a tool call or a run last ended."
)
DRAIN_DURATION = _gauge("worker_drain_duration_seconds", "How long the last drain took.")
DRAINED_TASKS = _counter(
    "worker_drained_tasks_total",
    "Runs at the end of a drain.",
    "outcome",
    outcome=("finished", "released", "cancelled"),
)
UNHANDLED_ERRORS = _counter(
    "worker_unhandled_errors_total",
    "Errors where nothing should raise.",
    "component",
    component=("consumer", "loop", "tool", "session", "store", "telemetry", "http", OTHER),
)
TELEMETRY_DROPPED = _counter(
    "telemetry_dropped_total",
    "Telemetry that was lost.",
    "signal",
    "reason",
    reason=("queue_full", "export_failed", "invalid_value", "serialization", "label_overflow"),
)
