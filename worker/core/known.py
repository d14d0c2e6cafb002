"""What a model was told: the admissible figures, in a form that is quick to ask.

A figure is known if it stands in a text with values, in whatever form and unit; if it was reckoned
from such; if it is quoted from a note on what is missing (and then it is no amount); or if it counts
what was asked for. Dates and times are in the calendar.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from worker.core import compounds
from worker.core.comparing import has, tight
from worker.core.dating import Calendar
from worker.core.fields import place_of
from worker.core.figure import Figure, Kind
from worker.core.figures import figures
from worker.core.inferring import Inferring, Spans, body_masses
from worker.core.measures import base_value
from worker.core.moments import Date
from worker.core.pools import LOOSE_MAX
from worker.core.reckoning import Reckoner
from worker.core.relations import EACH, SUM
from worker.core.results import ASKED, Operand
from worker.core.rows import Rows

_CODE = re.compile(r"[0-9]{4,}")
_CENTS = re.compile(r"(?:cents?|分|fen)[\"']?\s*[:=]\s*([0-9]{1,15})\b", re.IGNORECASE)
_TIMES = re.compile(
    r"([两二三四五六七八九十]|[1-9]|1[0-2])[ ]?(?=[位人个张份次盒晚只件名间套瓶箱大成小])"
    r"|\b(two|three|four|five|six|seven|eight|nine|ten|twelve)\b|\b([2-9]|1[0-2])[ ][A-Za-z]",
    re.IGNORECASE,
)
_WORD_TIMES = dict(zip("两二三四五六七八九十", (2, 2, 3, 4, 5, 6, 7, 8, 9, 10), strict=True))
_WORD_TIMES |= {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_WORD_TIMES |= {"nine": 9, "ten": 10, "twelve": 12}
_LIST = re.compile(r"\[([^\[\]{}]{1,400})\]")
_HUNDRED = re.compile(r"[一每][ ]?(?:百|100)|(?:/|\bper )100\b|\ba hundred\b", re.IGNORECASE)
_HUNDRED_TOLD = re.compile(r"百公里|per_?100")
_TWICE = re.compile(
    r"往返|来回|双程|一对|\b(?:round[- ]trip|return|both|twice|pair)\b", re.IGNORECASE
)
_TIMES_MAX, _FIELDS_MAX = 6, 6


@dataclass(slots=True)
class Known:
    """The figures that the model was told. Fill it with `take`, then `settle`, then ask."""

    calendar: Calendar = field(default_factory=Calendar)
    corpus: str = ""
    digits: str = ""  # the same, for numbers of telephones: without what parts them
    numbers: list[float] = field(default_factory=list)
    quoted: list[float] = field(default_factory=list)  # of notes: never a price, never reckoned
    bare: list[float] = field(default_factory=list)  # told without a unit
    expected: dict[str | None, list[float]] = field(default_factory=dict)  # of these, by dimension
    counted: list[float] = field(default_factory=list)  # told without a physical unit
    prices: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)  # in percent
    amounts: dict[str, list[float]] = field(default_factory=dict)  # by dimension, in its base unit
    units: dict[str, set[float]] = field(default_factory=dict)  # by dimension, those that were used
    waits: list[float] = field(default_factory=list)  # seconds until a retry
    spans: Spans = field(default_factory=Spans)
    operands: list[Operand] = field(default_factory=list)
    runs: list[list[Operand]] = field(default_factory=list)
    rows: Rows = field(default_factory=Rows)
    asked: list[float] = field(default_factory=list)  # numbers of the question
    lengths: set[int] = field(default_factory=set)  # how many numbers a text holds
    records: set[int] = field(default_factory=set)  # and how many records
    _small: tuple[float, ...] = ()
    _totals: set[float] = field(default_factory=set)
    _counted: dict[tuple[float, int], int] = field(default_factory=dict)
    _reckoner: Reckoner | None = None

    @property
    def question(self) -> str:
        """What was asked."""
        return self.calendar.question

    # --- taking in -------------------------------------------------------------------------------

    def take(self, text: str, *, is_note: bool = False, is_question: bool = False) -> None:
        """Add the figures of a text: one with values, or one that only tells what is missing."""
        run: list[Operand] = []
        found = figures(text)
        self.calendar.take(found, text)
        for figure in found:
            if figure.kind is Kind.IDENTIFIER:
                codes = self.quoted if is_note else self.numbers
                codes += [float(digits) for digits in _CODE.findall(figure.text)]
            elif figure.kind in (Kind.DATE, Kind.TIME):
                continue
            elif is_note:
                self._take_note(figure)
            elif figure.values:
                run += self._take_number(figure, text, is_question=is_question)
        if not is_note:
            self._take_run(run, text, is_question=is_question)

    def _take_run(self, run: list[Operand], text: str, *, is_question: bool) -> None:
        """Add the numbers of a text as what stands together."""
        in_cents = [int(cents) / 100 for cents in _CENTS.findall(text)]
        self.numbers += in_cents
        self.prices += in_cents
        if len(run) == 2:  # of two numbers in one text it is told how they differ
            mark = f"~{len(self.runs)}"
            run = [replace(each, tags=each.tags | {mark}) for each in run]
        self.runs.append(run)
        self.calendar.take_offsets(text)
        self.lengths.add(len(run))
        self.lengths |= {listed[1].count(",") + 1 for listed in _LIST.finditer(text)}
        self.records |= {text.count("{")} - {0, 1}
        self._reckon_with(run)
        if is_question:
            self.asked += [each.value for each in run]
        else:
            self.rows.take(text)

    def _take_note(self, figure: Figure) -> None:
        """What a note holds may be quoted; seconds may be told in minutes, and rounded up."""
        self.quoted += figure.values
        if figure.kind is Kind.DURATION:
            seconds = [value * figure.unit for value in figure.values]
            self.waits += seconds
            self.amounts.setdefault("time", []).extend(seconds)

    def _take_number(self, figure: Figure, text: str, *, is_question: bool) -> Iterator[Operand]:
        """Add one number in all that it means; yield what may be reckoned with."""
        place = place_of(figure, text, len(self.runs))
        if place.is_name:
            self.numbers += figure.values
            self.counted += figure.values
            return
        for value in figure.values:
            told = list(dict.fromkeys((value, value * place.scale)))
            self.numbers += told
            if figure.measure is None and figure.kind is Kind.NUMBER:
                self.counted += told
            if place.is_share:
                self.numbers.append(value / 100)
                self.shares.append(value)
            elif figure.money:
                self.prices += told
            elif place.is_bare:
                self.bare += told
            if place.is_open or place.hint:
                self.expected.setdefault(place.hint, []).extend(told)
            if place.may_be_share or (value <= 1 and place.is_bare):
                self.shares += [value, 100 * value] if value <= 1 else [value]
            if place.measure is not None:
                dimension, unit = place.measure
                base = base_value(value, place.measure)
                self.amounts.setdefault(dimension, []).append(base)
                self.units.setdefault(dimension, set()).add(unit)
            tags = place.tags | {ASKED} if is_question else place.tags
            yield Operand(value * place.scale, tags, place.period)

    def _reckon_with(self, run: Iterable[Operand]) -> None:
        """A value told twice, in the question and by a tool, is one: it is not added to itself."""
        here: dict[float, int] = {}
        for each in run:
            nth = here[each.value] = here.get(each.value, 0) + 1
            at = self._counted.get((each.value, nth))
            if at is None:
                self._counted[each.value, nth] = len(self.operands)
                self.operands.append(each)
            else:
                told = self.operands[at]
                self.operands[at] = replace(told, tags=told.tags | each.tags)

    def settle(self, texts: Sequence[str], answer: str, asked: Sequence[Figure]) -> None:
        """Put everything in order for an answer with these figures; `texts` are all taken."""
        self.corpus = self.calendar.corpus = tight("\n".join(texts))
        self.digits = re.sub(r"(?<=[0-9])[-](?=[0-9])", "", self.corpus)
        self.counted += self.quoted
        plain = (self.numbers, self.quoted, self.bare, self.prices, self.shares, self.waits)
        for told in (self.counted, *plain):
            told.sort()
        self.calendar.settle()
        inferring = Inferring(self.calendar, self.amounts, self.rows, self.numbers)
        self.spans = inferring.spans(texts, answer, asked)
        if "BMI" in answer.upper():
            self.numbers = sorted([*self.numbers, *body_masses(self.amounts)])
        for values in (*self.amounts.values(), *self.expected.values()):
            values.sort()
        self.calendar.ages = self.amounts.get("time", [])
        self.operands = self.operands[:LOOSE_MAX]
        self._small = self._small_in(answer)
        self._reckoner = None

    def _small_in(self, answer: str) -> tuple[float, ...]:
        """How many times something may be taken: 两人, a return ticket, per hundred."""
        small = [n for n in _times_in(f"{self.question}\n{answer}") if n > 1]
        if "斤" in answer:
            small.append(2.0)  # a 斤 is half a kilogram
        if _TWICE.search(answer):
            small.append(2.0)
        small += [float(n) for n in sorted(self.rows.list_lengths - {0, 1})[:2]]
        if _HUNDRED.search(answer) or _HUNDRED_TOLD.search(self.corpus):
            small.append(100.0)
        return tuple(small)

    def reckon_also_with(self, derived: Iterable[Operand]) -> None:
        """Take figures of the answer that were reckoned themselves."""
        told = {each.value for each in self.operands}
        fresh = [each for each in derived if each.value not in told]
        self.operands[:0] = fresh
        values = [each.value for each in fresh]
        self.numbers = sorted([*self.numbers, *values])
        self.counted = sorted([*self.counted, *values])
        self.prices = sorted([*self.prices, *values])
        self._reckoner = None

    @property
    def reckoner(self) -> Reckoner:
        """Everything that follows from what was told."""
        if self._reckoner is None:
            asked = _times_in(self.question)
            sums_of_fields = self._sums_of_fields()
            self._reckoner = Reckoner(
                [*self.operands, *sums_of_fields],
                [*self.runs, *self._columns()],
                self._small,
                asked,
            )
            self._reckoner.add_sums(sums_of_fields)
            records = self.rows.records
            years = [s / 31_557_600 for s in self.amounts.get("time", ()) if s >= 31_557_600]
            sums = [each.value for each in self.operands if each.value >= 100]
            totals = list(compounds.totals(list(self.rows.columns.values())))
            self._reckoner.add_compounds(
                [n for record in records for n in compounds.amounts(record)],
                [n for record in records for n in compounds.changes(record)],
                [*totals, *compounds.interest(sums, self.shares, [1.0, *years])],
            )
            self._reckoner.add_wholes(self.rows.wholes)
            self.operands += [Operand(n, frozenset({"="})) for n in totals if n not in self._totals]
            self._totals |= set(totals)
        return self._reckoner

    def _sums_of_fields(self) -> list[Operand]:
        """The sum of each field that several records have: it may be reckoned with, too."""
        tags = {each.value: each.tags for each in self.operands}
        found = []
        for name, values in self.rows.columns.items():
            if len(values) > 1 and "/" not in name and all(n in tags for n in values):
                common = frozenset.intersection(*(tags[n] for n in values))
                if not common & {"%", "heat", EACH}:
                    found.append(Operand(sum(values), (common - {ASKED}) | {SUM}))
        return found[:_FIELDS_MAX]

    def _columns(self) -> Iterator[list[Operand]]:
        """The numbers of one field in all records, each with its words."""
        tags = {each.value: each.tags for each in self.operands}
        for name, values in self.rows.columns.items():
            if len(values) > 1:
                column = frozenset({f"~{name}"})
                yield [Operand(n, tags.get(abs(n), frozenset()) | column) for n in values]

    # --- asking ----------------------------------------------------------------------------------

    def has_number(self, value: float, tolerance: float) -> bool:
        """Whether a number near enough was told."""
        return has(self.numbers, value, tolerance)

    def has_counted(self, value: float, tolerance: float) -> bool:
        """Whether it was told as a number of things: 4 kg are no 4 pills."""
        return has(self.counted, value, tolerance)

    def has_expected(self, dimension: str, value: float, tolerance: float) -> bool:
        """Whether it was told without a unit, and nothing says that it is of another dimension."""
        return any(has(self.expected.get(each, []), value, tolerance) for each in (None, dimension))

    def has_price(self, value: float, tolerance: float) -> bool:
        """Whether it was told as an amount of money, or without a unit."""
        return has(self.prices, value, tolerance) or has(self.bare, value, tolerance)

    def has_share(self, value: float, tolerance: float) -> bool:
        """Whether it was told in percent, or as a number that may well be meant in percent."""
        return has(self.shares, value, tolerance)

    def is_common(self, figure: Figure) -> bool:
        """Whether everybody knows it: a marathon has 42.195 km."""
        if figure.measure is None or figure.measure[0] != "length":
            return False
        words = self.corpus + tight(self.question)
        slack = figure.quantum * figure.unit / 2 + 0.6
        whole = figure.values[0] * figure.unit
        is_marathon = "marathon" in words or "马拉松" in words
        return is_marathon and min(abs(whole - 42_195), abs(whole - 21_097.5)) <= slack

    def has_note(self, value: float) -> bool:
        """Whether a note on what is missing holds this number."""
        return has(self.quoted, value, 0.0)

    def has_amount(self, dimension: str, base: float, tolerance: float) -> bool:
        """Whether so much of something was told, in whatever unit."""
        return has(self.amounts.get(dimension, []), base, tolerance)

    def has_date(self, said: Date) -> bool:
        """Whether nothing is said that was not told; a year may be told as a number."""
        if self.calendar.has_date(said):
            return True
        alone = said[1:] == (None, None)
        return alone and self.has_number(float(said[0] or 0), 0.0)


def _times_in(text: str) -> tuple[float, ...]:
    found: dict[float, None] = {}
    for match in _TIMES.finditer(text[:4000]):
        word = next(filter(None, match.groups())).lower()
        found[float(_WORD_TIMES.get(word) or word)] = None
    return tuple(found)[:_TIMES_MAX]
