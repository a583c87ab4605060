"""Values of configuration keys, checked as a broker of a release does.

Rules of this module (ConfigDef.parseType and its validators, LogConfig.validate, KafkaConfig.validateValues; compared
with the answers of the jars of all releases from 0.9 on):
  - a line of the table of validators is `OWNER NAME SINCE:VALIDATOR ...`; `-` is none. Before 0.9, whose brokers have
    no ConfigDef, the validators of 0.9 apply;
  - a value is parsed by the type of its key, then checked by its validator, whose text shows the parsed value;
  - some values are valid alone but not together. That is checked last.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.jvm.numbers import double_text, parse_int, parse_long
from simzk.kafka.releases.config_keys import RATES, broker_keys, in_milliseconds, internal_keys, topic_config_keys
from simzk.kafka.releases.config_orders import parsed_order
from simzk.kafka.releases.config_validators import FORMAT_VERSIONS, VALIDATORS
from simzk.kafka.releases.since import Profile, at_release, before, by_release, since

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.kafka.releases.since import Release

FIRST_CHECKED: Final = (0, 9)
"""The first release with a ConfigDef of brokers and topics."""
_FIRST_LISTED: Final = (0, 11)
"""The first release whose types of keys are known (DescribeConfigs)."""
_NEWEST: Final = (3, 9)
_DOUBLE: Final = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)")
"""A number as Java's `Double.parseDouble` reads it; hexadecimal ones are left out."""
_COMMA: Final = re.compile(r"\s*,\s*")
_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")
_SHORT: Final = 1 << 15
_LITERAL: Final = "{name} must be the literal '*' or a list of replicas in the following format:"
_TOPIC, _BROKER = "topic", "broker"


class ValueTexts(Profile):
    """Texts of checks, and which a release makes."""

    invalid_version: str = by_release(
        "Version `{value}` is not a valid version", ((3, 3), "Version {value} is not a valid version")
    )
    replicas: str = by_release(
        "{name}  must match for format [partitionId],[brokerId]:[partitionId],[brokerId]:[partitionId],[brokerId] etc",
        ((0, 11), f"{_LITERAL} [partitionId],[brokerId]:[partitionId],[brokerId]:..."),
        ((2, 3), f"{_LITERAL} [partitionId]:[brokerId],[partitionId]:[brokerId],..."),
    )
    """An invalid list of throttled replicas."""
    takes_wildcard_first: bool = before((2, 8))
    """The wildcard of such a list may have replicas behind it."""
    at_least: str = by_release("equal or greater than", ((2, 8), "greater than or equal to"))
    lag: str = by_release("at least", ((1, 0), "less than or equal to"))
    """What the wait of a follower should be, compared with the lag that is allowed."""
    checks_queue: bool = since((1, 0))
    needs_overrides: bool = since((2, 0))
    checks_delay: bool = since((2, 1))
    checks_compaction_lags: bool = since((2, 3))
    checks_remote_storage: bool = since((3, 6))
    compares_with_broker: bool = since((3, 6))
    """Values of a topic must fit to those of the broker that it does not set."""
    has_no_remote_switches: bool = since((3, 9))
    """Clusters with ZooKeeper refuse the keys that end or pause remote storage."""


class TopicProblem(NamedTuple):
    """Why a topic cannot have a configuration.

    Args:
        text: the reason.
        is_value: whether a value is invalid (ConfigException); otherwise values conflict
            (InvalidConfigurationException).
    """

    text: str
    is_value: bool


def value_problem(owner: str, name: str, value: str, release: Release) -> str | None:
    """Return why a key of a `broker` or a `topic` cannot have a value, as the release says it; None if it can.

    >>> value_problem("topic", "cleanup.policy", "delet", (3, 9))
    'Invalid value delet for configuration cleanup.policy: String must be one of: compact, delete'
    >>> value_problem("topic", "retention.ms", "-5", (3, 9))
    'Invalid value -5 for configuration retention.ms: Value must be at least -1'
    >>> value_problem("broker", "num.io.threads", "x", (2, 4)), value_problem("topic", "retention.ms", "-1", (2, 4))
    ('Invalid value x for configuration num.io.threads: Not a number of type INT', None)
    """
    kind = _kinds(owner, max(release, _FIRST_LISTED)).get(name)
    if kind is None:
        return None
    trimmed = value.strip(_JAVA_SPACE)
    if (reason := _type_problem(kind, trimmed)) is not None:
        return _text(value, name, reason)
    validator = _validator(owner, name, max(release, FIRST_CHECKED))
    if validator is None:
        return None
    rule, _, rest = validator.partition("(")
    problem = _RULES[rule](trimmed, rest.removesuffix(")"), name, at_release(ValueTexts, release))
    return None if problem is None else _text(problem[0], name, problem[1])


_JAVA_SPACE: Final = "".join(map(chr, range(33)))
"""What `String.trim` removes."""


def _text(shown: str, name: str, reason: str) -> str:
    return f"Invalid value {shown} for configuration {name}: {reason}"


@cache
def _kinds(owner: str, release: Release) -> dict[str, str]:
    """Return the types of keys by name; a topic's keys of all releases."""
    if owner == _BROKER:
        known = internal_keys(_BROKER, release) | broker_keys(release)
        return {name: key.kind for name, key in known.items()} | dict.fromkeys(RATES, "long")
    known = topic_config_keys(_NEWEST) | topic_config_keys(release)
    return {name: key.kind for name, key in known.items()}


@cache
def _validators() -> dict[tuple[str, str], list[tuple[Release, str]]]:
    found = {}
    for line in VALIDATORS.split("\n")[1:-1]:
        owner, name, *steps = line.split(" ")
        parts = [step.partition(":")[::2] for step in steps]
        found[owner, name] = [(tuple(map(int, first.split("."))), rule) for first, rule in parts]
    return found | {(_BROKER, name): [(FIRST_CHECKED, "range(0..)")] for name in RATES}


def _validator(owner: str, name: str, release: Release) -> str | None:
    """Return the validator of a key; None if it has none."""
    steps = _validators().get((owner, name), [])
    rule = next((rule for first, rule in reversed(steps) if first <= release), "-")
    return None if rule == "-" else rule


def _type_problem(kind: str, trimmed: str) -> str | None:
    """Return why a value is not of a type, in the words of ConfigDef; None if it is."""
    if kind == "boolean":
        return None if trimmed.lower() in ("true", "false") else "Expected value to be either true or false"
    if kind == "double":
        fits = _DOUBLE.fullmatch(trimmed) is not None
    elif kind == "long":
        fits = parse_long(trimmed) is not None
    elif kind in ("int", "short"):
        number = parse_int(trimmed)
        fits = number is not None and (kind == "int" or -_SHORT <= number < _SHORT)
    else:
        fits = True
    return None if fits else f"Not a number of type {kind.upper()}"


Checked = tuple[str, str] | None
"""The value as shown in a text, and the reason; None if the value is valid."""


def _in_range(value: str, bounds: str, name: str, texts: ValueTexts) -> Checked:
    least, _, most = bounds.partition("..")
    number = parse_long(value)
    shown = double_text(_double(value)) if number is None or name in _DOUBLES else str(number)
    exact = _double(value) if number is None else number
    if least and exact < float(least):
        return shown, f"Value must be at least {least}"
    return (shown, f"Value must be no more than {most}") if most and exact > float(most) else None


_DOUBLES: Final = (
    "min.cleanable.dirty.ratio",
    "log.cleaner.min.cleanable.ratio",
    "remote.log.manager.task.retry.jitter",
)
"""Keys with a validator whose values are doubles."""


def _double(text: str) -> float:
    """Return a number that `_DOUBLE` matches."""
    return float(text if text.endswith(("NaN", "Infinity")) else text.rstrip("fFdD"))


def _one_of(value: str, valid: str, name: str, texts: ValueTexts) -> Checked:
    known = valid.split(",")
    return None if value in known else (value, f"String must be one of: {', '.join(known)}")


def _any_case(value: str, valid: str, name: str, texts: ValueTexts) -> Checked:
    known = valid.split(",")
    return None if value.upper() in known else (value, f"String must be one of (case insensitive): {', '.join(known)}")


def _list_of(value: str, valid: str, name: str, texts: ValueTexts) -> Checked:
    wrong = (found for item in items(value) if (found := _one_of(item, valid, name, texts)) is not None)
    return next(wrong, None)


def items(value: str) -> list[str]:
    """Return the items of a list as ConfigDef cuts it.

    >>> items(" compact , delete"), items(" ")
    (['compact', 'delete'], [])
    """
    return _COMMA.split(trimmed) if (trimmed := value.strip(_JAVA_SPACE)) else []


def _replicas(value: str, valid: str, name: str, texts: ValueTexts) -> Checked:
    parts = items(value)
    has_wildcard = parts[:1] == ["*"] if texts.takes_wildcard_first else "".join(parts) == "*"
    if has_wildcard or all(map(_REPLICA.fullmatch, parts)):
        return None
    return f"[{', '.join(parts)}]", texts.replicas.format(name=name)


def _version(value: str, newest: str, name: str, texts: ValueTexts) -> Checked:
    return None if is_format_version(value, newest) else (value, texts.invalid_version.format(value=value))


def is_format_version(value: str, newest: str) -> bool:
    """Return whether a text names a protocol or format version of a release (ApiVersion.apply, MetadataVersion).

    Args:
        newest: the newest of the release; `3.8<3.9-IV0` also knows one of the next line, whose short name it lacks.

    >>> [is_format_version(text, "2.4<2.4-IV1") for text in ("2.4", "2.4-IV1", "2.4.1", "0.8.2.1", "2.5", "x")]
    [True, True, True, True, False, False]
    """
    line, _, last = newest.partition("<")
    known = re.findall(r"[^,\s]+", FORMAT_VERSIONS)
    known = known[: known.index(last) + 1]
    cut = ".".join(value.split(".")[: 3 if value.startswith("0.") else 2])
    names = [version.partition("-")[0] for version in known]
    return cut in known or cut in names[: len(names) - names[::-1].index(line)]


def _non_empty(value: str, valid: str, name: str, texts: ValueTexts) -> Checked:
    return None if value else (value, "String must be non-empty")


def _level(value: str, valid: str, name: str, texts: ValueTexts) -> Checked:
    number = int(value)
    return None if 1 <= number <= 9 or number == -1 else (str(number), "Value must be between 1 and 9 or equal to -1")


def _threads(value: str, valid: str, name: str, texts: ValueTexts) -> Checked:
    number = int(value)
    return None if number == -1 or number > 0 else (str(number), "Value can be -1 or greater than 0")


_RULES: Final = {
    "range": _in_range,
    "one-of": _one_of,
    "any-case": _any_case,
    "list-of": _list_of,
    "replicas": _replicas,
    "version": _version,
    "non-empty": _non_empty,
    "level": _level,
    "threads": _threads,
}
"""Validators by their name in the table."""


def topic_problem(
    values: Mapping[str, str], release: Release, usual: Callable[[str], str] | None = None
) -> TopicProblem | None:
    """Return why a topic cannot have these values, all keys of which the release has (LogConfig.validate).

    Args:
        values: the values of the topic.
        release: the release.
        usual: returns the broker's value for a key that the topic does not set, with which the values are compared
            from 3.6 on; Kafka's defaults if None, and before.

    >>> topic_problem({"remote.storage.enable": "true"}, (3, 9)).text
    'Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.'
    """
    for name in parsed_order(_TOPIC, values, release):
        if (text := value_problem(_TOPIC, name, values[name], release)) is not None:
            return TopicProblem(text, is_value=True)
    texts = at_release(ValueTexts, release)
    if texts.checks_compaction_lags:
        least, most = (
            int(values.get(name) or (usual(name) if usual and texts.compares_with_broker else default))
            for name, default in (("min.compaction.lag.ms", "0"), ("max.compaction.lag.ms", str(2**63 - 1)))
        )
        if least > most:
            text = f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
            return TopicProblem(text, is_value=False)
    switches = ("remote.log.delete.on.disable", "remote.log.copy.disable")
    if texts.has_no_remote_switches and any(_is_on(values, name) for name in switches):
        text = f"It is invalid to set `{switches[0]}` or `{switches[1]}` under Zookeeper's mode."
        return TopicProblem(text, is_value=False)
    if texts.checks_remote_storage and _is_on(values, "remote.storage.enable"):
        disabled = "Tiered Storage functionality is disabled in the broker."
        text = f"{disabled} Topic cannot be configured with remote log storage."
        return TopicProblem(text, is_value=True)
    return None


def _is_on(values: Mapping[str, str], name: str) -> bool:
    return values.get(name, "").strip(_JAVA_SPACE).lower() == "true"


def broker_problem(values: Mapping[str, str], release: Release) -> str | None:
    """Return why a broker does not start with the values of its keys; None if it does (KafkaConfig.validateValues).

    Args:
        values: all values that differ from the defaults, each valid alone.

    >>> broker_problem({"log.retention.hours": "0"}, (3, 9))
    'requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1'
    >>> broker_problem({"log.retention.hours": "-1"}, (3, 9)) is None
    True
    """
    if release < FIRST_CHECKED:
        return None
    texts = at_release(ValueTexts, release)
    failed = next((text for is_met, text in _requirements(values, release, texts) if not is_met), None)
    return None if failed is None else f"requirement failed: {failed}"


def _requirements(values: Mapping[str, str], release: Release, texts: ValueTexts) -> list[tuple[bool, str]]:
    """Return the requirements on the values of a broker, in the order in which they are checked."""
    keys, zero = broker_keys(max(release, _FIRST_LISTED)), "0"

    def number(*names: str) -> int:
        """Return the value of the first of these keys that has one, in milliseconds if it is a longer time."""
        found = ((name, values.get(name)) for name in names)
        name, value = next(((name, value) for name, value in found if value is not None), (names[-1], None))
        return int(in_milliseconds(name, (value or keys[name].default or zero).strip(_JAVA_SPACE)))

    retention = number("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    wait = number("replica.fetch.wait.max.ms")
    socket, lag = number("replica.socket.timeout.ms"), number("replica.lag.time.max.ms")
    buffers, threads = number("log.cleaner.dedupe.buffer.size"), number("log.cleaner.threads")
    often, unneeded = "prevent frequent changes in ISR", "prevent unnecessary socket timeouts"
    codec = values.get("compression.type", "producer")
    codecs = (_validator(_TOPIC, "compression.type", release) or "").partition("(")[2].removesuffix(")")
    rows = [
        (number("log.roll.ms", "log.roll.hours") >= 1, f"log.roll.ms must be {texts.at_least} 1"),
        (number("log.roll.jitter.ms", "log.roll.jitter.hours") >= 0, f"log.roll.jitter.ms must be {texts.at_least} 0"),
        (retention >= 1 or retention < 0, f"log.retention.ms must be unlimited (-1) or, {texts.at_least} 1"),
        (
            threads == 0 or buffers // threads > 1 << 20,
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            wait <= socket,
            f"replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to {unneeded}",
        ),
        (wait <= lag, f"replica.fetch.wait.max.ms should always be {texts.lag} replica.lag.time.max.ms to {often}"),
    ]
    rows.append((codec in codecs.split(","), f"compression.type : {codec} is not valid. Valid options are {codecs}"))
    if texts.checks_queue:
        queued, largest = number("queued.max.request.bytes"), number("socket.request.max.bytes")
        rows.append(
            (
                queued <= 0 or queued >= largest,
                "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
            )
        )
    if texts.needs_overrides:
        name, others = "max.connections.per.ip", "max.connections.per.ip.overrides"
        text = f"{name} can be set to zero only if {others} property is set."
        rows.append((number(name) != 0 or bool(values.get(others)), text))
    if texts.checks_delay:
        delay, idle = number("connection.failed.authentication.delay.ms"), number("connections.max.idle.ms")
        text = (
            f"connection.failed.authentication.delay.ms={delay} should always be less than"
            f" connections.max.idle.ms={idle} to prevent failed authentication responses from timing out"
        )
        rows.append((idle < 0 or delay < idle, text))
    return rows


_POOLS: Final = (
    *("num.io.threads", "num.network.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir"),
    "background.threads",
)
"""Thread pools that change their size while a broker runs (DynamicThreadPool)."""
_CLEANERS: Final = "log.cleaner.threads"


def resizing_problem(present: Mapping[str, str], changed: Mapping[str, str], release: Release) -> str | None:
    """Return why a broker that runs cannot change the size of a thread pool; None if it can.

    The text is that of an exception about an exception, as brokers answer it.

    >>> resizing_problem({}, {"num.io.threads": "8"}, (3, 9)) is None
    True
    >>> resizing_problem({}, {"num.io.threads": "100"}, (3, 9)).partition(": ")[2]
    'Dynamic thread count update validation failed for num.io.threads=100, value should not be greater than double the \
current value 8 for configuration Invalid dynamic configuration'
    """
    keys = broker_keys(release)
    for name in (*_POOLS, _CLEANERS):
        if name not in keys or (default := keys[name].default) is None:
            continue
        old, new = int(present.get(name, default)), int(changed.get(name, default))
        what, *texts = _RESIZED[name == _CLEANERS]
        wrong = (new < 1, new < old // 2, new > old * 2)
        reason = next((text for is_wrong, text in zip(wrong, texts, strict=True) if is_wrong), None)
        if new != old and reason is not None:
            text = f"{what}{reason}".format(name=name, new=new, old=old)
            invalid = f"org.apache.kafka.common.config.ConfigException: {text}"
            return f"Invalid value {invalid} for configuration Invalid dynamic configuration"
    return None


_RESIZED: Final = (
    (
        "Dynamic thread count update validation failed for {name}={new}, ",
        "value should be at least 1",
        "value should be at least half the current value {old}",
        "value should not be greater than double the current value {old}",
    ),
    (
        "Log cleaner threads ",
        "should be at least 1",
        "cannot be reduced to less than half the current value {old}",
        "cannot be increased to more than double the current value {old}",
    ),
)
"""Texts about a pool, and about the threads of the log cleaner: too few, a jump down, a jump up."""
