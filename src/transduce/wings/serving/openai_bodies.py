"""The bodies of requests of OpenAI's interface: completions and chats."""

from __future__ import annotations

import time
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from transduce.core.errors import RequestError
from transduce.wings.serving import bodies
from transduce.wings.serving.answerer import Continuing
from transduce.wings.serving.bodies import Count, Index
from transduce.wings.serving.limits import Limits

MOST_BEST = 20  # most probable tokens at each position
Penalty = Annotated[float, Field(ge=-2, le=2)]
NEUTRAL: dict[str, tuple[object, ...]] = {
    "suffix": (None, ""),
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
}  # keys that the server knows and does not support, with the values that change nothing


class StreamOptions(BaseModel):
    """The options of a stream; others than this one change nothing."""

    model_config = ConfigDict(extra="ignore")
    include_usage: StrictBool | None = False


class Writing(bodies.Body):
    """The keys of both: how the run writes, and how the answer is sent. OpenAI does not have ``top_k``."""

    temperature: Annotated[float, Field(ge=0, le=100)] | None = 1.0
    top_p: Annotated[float, Field(ge=0, le=1)] | None = 1.0
    top_k: Count | None = None
    n: Count | None = 1
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    max_tokens: Count | None = None
    stop: str | list[str] | None = None
    stream: StrictBool | None = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    presence_penalty: Penalty | None = 0.0
    frequency_penalty: Penalty | None = 0.0
    logprobs: Any = None
    named_best: ClassVar[str] = "logprobs"

    @property
    def stops(self) -> list[str]:
        return [each for each in ([self.stop] if isinstance(self.stop, str) else self.stop or []) if each]

    @property
    def count(self) -> int:
        """The number of outputs for each prompt."""
        return 1 if self.n is None else self.n

    @property
    def best(self) -> int | None:
        """How many of the most probable tokens at its position each token has. None: without log-probabilities."""
        return None

    @property
    def echoes(self) -> bool:
        """True if an output begins with its prompt."""
        return False

    @property
    def tells_usage(self) -> bool:
        """True if a stream ends with the number of its tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def check(self, limits: Limits) -> None:
        """Raises RequestError if a key has a value that the server does not support, or that exceeds its limits."""
        for name, neutral in NEUTRAL.items():
            if (value := getattr(self, name, None)) not in neutral:
                raise RequestError(f"{name} = {str(value)[:60]}: the server does not have it; leave it out")
        limits.check_number("n", self.count, limits.nbest)
        if self.max_tokens is not None:
            limits.check_number("max_tokens", self.max_tokens, limits.tokens)
        if self.best:
            limits.check_number(self.named_best, self.best, MOST_BEST)


class Completion(Writing):
    """The keys of /v1/completions. A run with sources reads the prompt as its source, and its own search writes:
    ``temperature``, ``top_p``, ``top_k``, ``seed`` and ``max_tokens`` are for language models.
    """

    prompt: str | list[str] = ""
    max_tokens: Count | None = 16
    best_of: Count | None = None
    echo: StrictBool | None = False
    suffix: str | None = None
    logprobs: Index | None = None

    @property
    def prompts(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    @property
    def best(self) -> int | None:
        return self.logprobs

    @property
    def echoes(self) -> bool:
        return bool(self.echo)

    def check(self, limits: Limits) -> None:
        super().check(limits)
        if self.best_of not in (None, self.count):
            raise RequestError(f"best_of = {self.best_of}: the server does not have it; leave it out")
        if self.logprobs is not None and self.echo:
            raise RequestError("logprobs are of the tokens that are written, not of the prompt: leave out echo")
        limits.check_texts("prompt", len(self.prompts))
        for prompt in self.prompts:
            limits.check_text("prompt", prompt)
        if self.stream and len(self.prompts) != 1:
            raise RequestError("stream writes the outputs for one prompt: leave out other prompts")

    def continuing(self) -> Continuing:
        """The settings with which a language model writes. Temperature 0 takes the most probable token."""
        temperature = 1.0 if self.temperature is None else self.temperature
        greedy = temperature == 0
        return Continuing(
            16 if self.max_tokens is None else self.max_tokens,
            self.count,
            1.0 if greedy else temperature,
            1 if greedy else self.top_k,
            None if self.top_p in (None, 1) else self.top_p,
            int(time.time_ns() % 2**31) if self.seed is None else self.seed,
        )


class Part(BaseModel):
    """A part of a message."""

    model_config = ConfigDict(extra="forbid")
    type: Literal["text"]
    text: str


class Message(BaseModel):
    """A message of a chat."""

    model_config = ConfigDict(extra="ignore")
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(each.text for each in self.content)


class Chat(Writing):
    """The keys of /v1/chat/completions. The run's own search writes. A run of dialogues needs its
    ``labels``, such as the topic; OpenAI does not have this key.
    """

    messages: list[Message]
    max_completion_tokens: Count | None = None
    logprobs: StrictBool | None = False
    top_logprobs: Index | None = None
    labels: list[str] = Field(default_factory=list)
    named_best: ClassVar[str] = "top_logprobs"

    @property
    def best(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    def check(self, limits: Limits) -> None:
        super().check(limits)
        if self.top_logprobs and not self.logprobs:
            raise RequestError(f"top_logprobs = {self.top_logprobs} without logprobs: give logprobs = true with it")
        if not self.messages or self.messages[-1].role != "user":
            raise RequestError("the last of the messages is the one to answer: one of the role user was expected")
        for message in self.messages:
            limits.check_text("a message", message.text)
