"""Every knob, with its default, its unit and its bounds.

Precedence: environment (`LOOPWORKER_QUEUE_URL`, nested `LOOPWORKER_GUARD__OPEN_SECONDS`), then a
TOML file (`LOOPWORKER_CONFIG`, else `loopworker.toml` in the working folder), then what a tool's
decorator says, then the default. `loopworker config` prints where each value came from.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from worker.core.history import BYTES_OF_TOKEN
from worker.core.limits import Limits
from worker.core.prices import PriceList
from worker.core.sessionbounds import SessionOptions, TurnBounds
from worker.core.sharding import SHARDS_MAX, Sharding, read_shard_set
from worker.core.steps import StepPolicy, read_policy
from worker.fallbacksettings import FallbackModel, FallbackSettings, First, read_fallbacks
from worker.guardsettings import GuardOverride, GuardSettings
from worker.handoffsettings import HandoffRule
from worker.loopsettings import LoopSettings, Prices, StepSettings, StepsPolicy
from worker.mcpsettings import McpServerSettings, ServerName
from worker.section import Key, Line, Names, Seconds, Section
from worker.sessionsettings import SessionSettings
from worker.waitingsettings import WaitingSettings


def _shard_set(text: str) -> str:
    read_shard_set(text)
    return text


ShardSet = Annotated[str, AfterValidator(_shard_set)]


class QueueSettings(Section):
    """How tasks are claimed and handed back."""

    backoff_seconds: Seconds = Field(
        2.0, ge=0, le=3600, description="First delay before a failed task is tried again; doubles."
    )
    backoff_seconds_max: Seconds = Field(300.0, ge=0, le=86400, description="Longest such delay.")
    depth_max: int = Field(
        1_000_000, ge=1, description="Waiting tasks above which submits are refused."
    )
    lease_seconds: Seconds = Field(
        30.0, ge=0.5, le=3600, description="A dead worker's task is taken up after this time."
    )
    max_deliveries: int = Field(
        5, ge=1, le=1000, description="Counted deliveries before a task goes to the dead letters."
    )
    name: Line = Field("tasks", min_length=1, max_length=100, description="The queue's name.")
    poll_seconds: Seconds = Field(
        1.0, ge=0.01, le=20, description="Longest wait of one claim on an empty queue."
    )


class OutboundSettings(Section):
    """HTTP requests that leave the process."""

    allow_hosts: Names = Field(
        (), description="Hosts that fetch_page may reach although their address is private."
    )
    proxies_from_environment: bool = Field(
        False, description="Honour HTTP_PROXY and the like for outbound requests."
    )
    trace_hosts: Names = Field(
        ("127.0.0.1", "localhost", "::1"),
        description="Hosts that get trace headers; the model's host is not added by itself.",
    )
    transport: Literal["aiohttp", "httpx"] = Field(
        "aiohttp", description="What carries httpx: the aiohttp transport, or httpx's own."
    )


class WorkerSettings(Section):
    """The life of the process."""

    drain_seconds: Seconds = Field(
        20.0, ge=0, le=3600, description="Time for running tasks to end after SIGTERM."
    )
    loop_stuck_seconds: Seconds | None = Field(
        None,
        gt=0,
        le=3600,
        description="Silence of the event loop that turns health red and lets leases go; the lease.",
    )
    prune_seconds: Seconds = Field(
        60.0, gt=0, le=86400, description="How often finished runs past RETENTION are removed."
    )
    termination_grace_seconds: Seconds = Field(
        30.0, gt=0, le=7200, description="What the platform grants between SIGTERM and SIGKILL."
    )


class Settings(Section):
    """All settings of one worker."""

    admin: Line = Field(
        "127.0.0.1:9464", description="Address of /metrics, /healthz and /readyz; `off` for none."
    )
    api_key: Key | None = Field(
        None, description="Key of the model endpoint; falls back to OPENAI_API_KEY."
    )
    concurrency: int = Field(16, ge=1, le=100_000, description="Tasks in work at once.")
    deadline: Seconds = Field(
        600.0, gt=0, le=604_800, description="Seconds a run may take when its task names no end."
    )
    fallbacks: dict[str, FallbackSettings] = Field(
        default_factory=dict, description="Details of entries of MODEL_FALLBACKS, by their names."
    )
    guard: GuardSettings = Field(default_factory=GuardSettings)
    guards: dict[str, GuardOverride] = Field(
        default_factory=dict, description="Exceptions for one dependency or tool, by its name."
    )
    handoff: dict[str, HandoffRule] = Field(
        default_factory=dict, description="Rules that hand a run over to a person, by name."
    )
    http: Line = Field(
        "127.0.0.1:8080", description="Address of the API and the console; `off` for none."
    )
    http_token: Key | None = Field(
        None, description="Bearer token of the API; required on an address beyond loopback."
    )
    log_content: Literal["none", "hash", "redacted", "full"] = Field(
        "redacted", description="How much of inputs and answers is logged."
    )
    log_format: Literal["json", "console"] = Field("json", description="Form of a log line.")
    log_level: Literal["debug", "info", "warning", "error", "critical"] = Field(
        "info", description="Least severe line that is written."
    )
    loop: LoopSettings = Field(default_factory=LoopSettings)
    max_argument_bytes: int = Field(
        65_536, ge=64, le=16_777_216, description="Longest arguments of one tool call."
    )
    max_history_messages: int = Field(
        200, ge=2, le=100_000, description="Messages of a conversation sent to the model at most."
    )
    max_history_tokens: int = Field(
        16_000,
        ge=100,
        le=10_000_000,
        description="Tokens (estimated) of a conversation sent to the model at most.",
    )
    max_output_tokens: int | None = Field(
        None, ge=1, le=10_000_000, description="max_tokens of each model call; none: not sent."
    )
    max_result_chars: int = Field(
        20_000, ge=100, le=10_000_000, description="Longest tool result the model sees; cut after."
    )
    max_steps: StepsPolicy = Field(
        8, description="Model replies in one run: a number, by_task, by_length; +adaptive."
    )
    mcp: dict[ServerName, McpServerSettings] = Field(
        default_factory=dict, description="MCP servers whose tools are offered, by name."
    )
    model: Line | None = Field(None, min_length=1, description="Name of the model to ask for.")
    model_attempts: int = Field(4, ge=1, le=20, description="Attempts of one model call.")
    model_backoff: Seconds = Field(
        0.5, ge=0, le=60, description="First back-off between attempts of a model call."
    )
    model_fallbacks: Names = Field(
        (), description="Models that stand in, in their order: model[@url][[cause+cause]]."
    )
    model_read_timeout: Seconds = Field(
        60.0, gt=0, le=3600, description="Longest silence of the model server within a reply."
    )
    model_stream: bool = Field(False, description="Ask for replies as a stream.")
    model_timeout: Seconds = Field(
        120.0, gt=0, le=7200, description="Longest time of one attempt of a model call."
    )
    model_url: Line | None = Field(
        None, description="OpenAI-compatible base URL; falls back to OPENAI_BASE_URL."
    )
    outbound: OutboundSettings = Field(default_factory=OutboundSettings)
    parallel_tool_calls: Literal["auto", "on", "off"] = Field(
        "auto", description="auto: not sent; on, off: sent as true, false."
    )
    prices: Prices = Field(
        (), description="Per million tokens: MODEL=PROMPT/COMPLETION[/CACHED], MODEL*=…, *=told."
    )
    queue: QueueSettings = Field(default_factory=QueueSettings)
    queue_shard_by: Literal["session", "tenant"] = Field(
        "session", description="What stays together in one shard: a session, or a whole tenant."
    )
    queue_shard_set: ShardSet = Field(
        "", description="Shards that this worker reads, such as 0-3,7; empty: all of them."
    )
    queue_shards: int = Field(
        1, ge=1, le=SHARDS_MAX, description="Queues that the named one is split into."
    )
    queue_url: Line = Field("sqlite:///loopworker.db", description="Where tasks wait.")
    retention: Seconds = Field(
        604_800.0, ge=0, description="How long finished runs and results are kept."
    )
    steps: StepSettings = Field(default_factory=StepSettings)
    session: SessionSettings = Field(default_factory=SessionSettings)
    store_url: Line | None = Field(
        None, description="Journal and results; the queue's engine unless set."
    )
    system_prompt: str | None = Field(
        None, description="Replaces the built-in prompt in the language of the question."
    )
    tools: str = Field(
        "tools", description="Packages, folders or files of tools, separated by commas."
    )
    trace_queue: Literal["parent", "link"] = Field(
        "parent", description="parent: a first delivery continues the caller's trace."
    )
    waiting: WaitingSettings = Field(default_factory=WaitingSettings)
    worker: WorkerSettings = Field(default_factory=WorkerSettings)

    def stand_ins(self) -> tuple[FallbackModel, ...]:
        """The models that stand in for the first one, in their order. Raises ConfigError."""
        key = self.api_key.get_secret_value() if self.api_key else None
        first = First(self.model or "default", self.model_url, key)
        return read_fallbacks(self.model_fallbacks, self.fallbacks, first)

    @property
    def loop_stuck_seconds(self) -> float:
        """Silence of the event loop that counts as stuck: the lease unless set (decisions.md 10)."""
        return self.worker.loop_stuck_seconds or self.queue.lease_seconds

    def queue_options(self) -> dict[str, Any]:
        """The limits and the split of the queue, as `open_queue` takes them."""
        return {
            "name": self.queue.name,
            "max_deliveries": self.queue.max_deliveries,
            "depth_max": self.queue.depth_max,
            "sharding": self.sharding(),
        }

    def sharding(self) -> Sharding:
        """How the queue is split."""
        only = read_shard_set(self.queue_shard_set)
        return Sharding(self.queue_shards, self.queue_shard_by, only)

    def guard_with_room(self) -> GuardSettings:
        """The guard settings with room for what this worker itself lets in.

        A bulkhead narrower than the concurrency would fail calls of tasks that the worker chose to
        run; it is narrow only where operations say so.
        """
        limit = self.guard.limit or max(8, self.concurrency)
        queue_max = self.guard.queue_max
        if queue_max is None:
            queue_max = max(16, self.concurrency)
        return self.guard.model_copy(update={"limit": limit, "queue_max": queue_max})

    def limits(self) -> Limits:
        """The caps of a run as the settings have them; a task may narrow them."""
        return Limits(
            max_calls_per_step=self.loop.max_calls_per_step,
            max_invalid_turns=self.loop.max_invalid_turns,
            max_empty_replies=self.loop.max_empty_replies,
            max_repeats=self.loop.max_repeats,
            tokens=self.loop.tokens_max,
            cost=self.loop.cost_max,
            honesty_gate=self.loop.honesty_gate,
        )

    def step_policy(self) -> StepPolicy:
        """How many steps a run gets."""
        base, steps, is_adaptive = read_policy(self.max_steps)
        return StepPolicy(base, steps, is_adaptive, self.loop.steps_ceiling, self.steps.table())

    def session_options(self) -> SessionOptions:
        """What is kept of conversations: twice what is sent, for old turns are sent shortened."""
        tokens = self.max_history_tokens
        return SessionOptions(
            bounds=TurnBounds(self.session.result_chars, turn_tokens=tokens // 2),
            ttl_seconds=self.session.ttl_seconds,
            bytes_max=2 * BYTES_OF_TOKEN * tokens,
        )

    def price_list(self) -> PriceList:
        """What the models cost."""
        return PriceList(self.prices)

    def unpriced_models(self) -> tuple[str, ...]:
        """The models that may be asked and have no price: no budget of money holds for them."""
        names = (self.model or "default", *(each.model for each in self.stand_ins()))
        known = self.price_list()
        return tuple(name for name in names if known.price_of(name) is None)
