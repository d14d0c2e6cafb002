"""The attribute names that our spans carry, spelled once.

The generative AI names follow semantic-conventions-genai 0.1.0 and the messaging names
semantic-conventions 1.44; both are marked as in development there, so they are kept here and not
taken from a package whose constants come and go. `error.type` and `server.*` are stable. A test
lists every name that a run emits.
"""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL = "gen_ai.tool.call.id"

MESSAGING_OPERATION = "messaging.operation.name"
MESSAGING_TYPE = "messaging.operation.type"
MESSAGING_SYSTEM = "messaging.system"
MESSAGING_DESTINATION = "messaging.destination.name"
MESSAGING_MESSAGE = "messaging.message.id"
MESSAGING_SIZE = "messaging.message.body.size"

ERROR_TYPE = "error.type"
ERROR_OTHER = "_OTHER"  # the convention's word for what is in no list
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

# Ours, where no convention has a name.
DELIVERY = "agent.queue.delivery_attempt"
QUEUE_WAIT = "agent.queue.wait"
SETTLEMENT = "agent.queue.settlement"
STEP_INDEX = "agent.step.index"
STEP_OUTCOME = "agent.step.outcome"
RUN_STATUS = "agent.run.status"
RUN_RESUMED = "agent.run.resumed"
RUN_MODELS = "agent.run.models"
RUN_DEGRADED = "agent.run.degraded"
RUN_HANDOFF = "agent.run.handoff.rule"
RUN_SYMPTOMS = "agent.run.symptoms"
RUN_MAX_STEPS = "agent.run.max_steps"
RUN_MAX_STEPS_REASON = "agent.run.max_steps_reason"
RUN_COST = "agent.run.cost"
RETRY_COUNT = "agent.retry.count"
DEPENDENCY = "agent.breaker.name"
BREAKER_STATE = "agent.breaker.state"
RESULT_SOURCE = "agent.result.source"
RESULT_REASON = "agent.result.reason"
RESULT_AGE = "agent.result.age"
RETRY_AFTER = "agent.retry.after"
COST = "agent.model.cost"
TASK = "task_id"

# The names that operators asked for, kept as they are beside the conventions'.
SESSION_ID = "session_id"
START_TIME = "start_time"
END_TIME = "end_time"
TOTAL_STEPS = "total_steps"
FINAL_STATUS = "final_status"
TOOL_NAME = "tool_name"
ARGUMENTS_HASH = "arguments_hash"
STEP_COUNT = "step_count"
EXECUTION_TIME = "execution_time"
STATUS_CODE = "status_code"
RESULT_SIZE = "result_size"
USER_INPUT_LENGTH = "user_input_length"
