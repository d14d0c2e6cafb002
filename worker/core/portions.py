"""Read shares, multiples and halves: 三分之二, one in twenty, doubled, half a million, 一个半小时."""

from __future__ import annotations

from worker.core.figure import At, Figure, Groups, Kind
from worker.core.measures import unit_of
from worker.core.numerals import SCALES, english_number_of, number_of, quantum_of, read, readings_of

_NTH = {"third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
_FOLDS = {"tripled": 3.0, "quadrupled": 4.0, "halved": 0.5, "翻两番": 4.0, "翻了两番": 4.0}
_NEAR = 0.16  # what is this near to a third is called a third
_DECADES = ("twen", "thir", "for", "fif", "six", "seven", "eigh", "nine")


def share_of(group: Groups, at: At) -> Figure | None:
    """A share or a multiple."""
    if group["cper"]:
        value, quantum = read(group["cper"])
        of = {"百": 100.0, "千": 1000.0, "万": 10_000.0}.get(group["den"]) or read(group["den"])[0]
        worth = 100.0 / of if of else 1.0
        # 三分之二 is a third twice; what is near it may be called so.
        quantum = quantum if group["den"] in "百千万" else _NEAR * value
        return Figure(Kind.PERCENT, *at, values=(value * worth,), quantum=quantum * worth)
    if group["tenths"]:
        more = group["tenths2"]
        extra = 0.0 if not more else 5.0 if more == "半" else read(more)[0]
        value = 10 * read(group["tenths"])[0] + extra
        return Figure(Kind.PERCENT, *at, values=(value,), quantum=1.1 if more else 10.0)
    if group["onein"]:
        word = group["onein"]
        count = float(word) if word.isdigit() else english_number_of(word)
        share = 100.0 / (count or 1.0)
        return Figure(Kind.PERCENT, *at, values=(share,), quantum=_NEAR * share)
    if group["outof"]:
        share = 100.0 * english_number_of(group["outof"]) / english_number_of(group["ofall"])
        return Figure(Kind.PERCENT, *at, values=(share,), quantum=_NEAR * 50)
    if group["parts"]:
        parts = 1.0 if group["parts"] in "an" else english_number_of(group["parts"])
        share = 100.0 * parts / _NTH[group["nth"].lower()]
        return Figure(Kind.PERCENT, *at, values=(share,), quantum=_NEAR * share)
    if group["halves"]:
        return Figure(Kind.PERCENT, *at, values=(50.0,), quantum=_NEAR * 50)
    if group["below"]:
        value, quantum = read(group["below"])
        return Figure(Kind.NUMBER, *at, values=(value,), quantum=quantum, measure=unit_of("℃"))
    if group["decade"]:
        value = 10.0 * (2 + _DECADES.index(group["decade"].lower())) + 5
        return Figure(Kind.NUMBER, *at, values=(value,), quantum=9.0)
    if group["onescale"]:
        worth = SCALES[group["onescale"].lower()]
        return Figure(Kind.NUMBER, *at, values=(worth,), quantum=0.1 * worth)
    if group["halfscale"]:
        worth = SCALES[group["halfscale"].lower()]
        return Figure(Kind.NUMBER, *at, values=(0.5 * worth,), quantum=0.1 * worth)
    if group["fold"]:
        return Figure(Kind.NUMBER, *at, values=(_FOLDS.get(at[0].lower(), 2.0),), quantum=0.1)
    if group["times"]:
        digits = group["times"]
        return Figure(Kind.NUMBER, *at, values=readings_of(digits), quantum=quantum_of(digits))
    if group["mao"]:
        value = read(group["mao"])[0] / 10
        value += read(group["maofen"])[0] / 100 if group["maofen"] else 0.0
        return Figure(Kind.NUMBER, *at, values=(value,), quantum=0.01, money=True)
    return None


def half_of(group: Groups, at: At) -> Figure | None:
    """A duration with a half in it."""
    if group["halfthing"]:
        return Figure(Kind.NUMBER, *at, values=(0.5,), quantum=0.1)
    if group["half"]:
        whole = read(group["halfwhole"])[0] if group["halfwhole"] else 0.0
        if not group["halfwhole"] and group["half"] == "个半":
            whole = 1.0
        value, word = whole + 0.5, group["halfspan"]
    elif group["plushalf"]:
        value, word = read(group["plushalf"])[0] + 0.5, group["plusspan"]
    elif group["halfof"] or group["andhalf"]:
        value, word = (0.5, group["halfof"]) if group["halfof"] else (1.5, group["andhalf"])
    elif group["ticks"] or group["hh"]:
        return _compact(group, at)
    elif group["another"] or group["ago"]:
        value, word = 1.0, group["another"] or group["ago"]
    elif group["quarterof"]:
        value, word = (0.75 if "three" in at[0].lower() else 0.25), group["quarterof"]
    else:
        return None
    measure = unit_of({"月": "个月", "岁": "年"}.get(word, word.lower()))
    return Figure(Kind.DURATION, *at, values=(value,), quantum=0.2, measure=measure)


def _compact(group: Groups, at: At) -> Figure:
    """Quarters of an hour, or 1h35m."""
    if group["ticks"]:
        minutes = 15.0 * number_of(group["ticks"])[0]
    else:
        minutes = 60.0 * int(group["hh"]) + int(group["mm"])
    return Figure(Kind.DURATION, *at, values=(minutes,), measure=unit_of("minutes"))
