"""What an honest answer may reckon from what it was told."""

from __future__ import annotations

import pytest

from worker.core.gate import check

JSON = {
    "tickets": '{"EMEA": 1284, "APAC": 967}',
    "weather": '{"temp_max": 27, "temp_min": 21, "wind_level": 4, "rain_probability": 0.2}',
    "week": '{"mon": 8120, "tue": 10455, "wed": 6010}',
    "disk": '{"db-1": "71%", "db-3": "93%"}',
    "bill": '{"kwh": 287, "amount": 168.9}',
    "weight": '{"gross_weight_kg": 86400, "containers": 4}',
    "trains": '[{"dep": "07:03", "arr": "09:18"}, {"dep": "07:33", "arr": "09:51"}]',
    "dates": '[{"due": "2026-12-15"}, {"due": "2026-12-08"}]',
    "prizes": '{"一等奖": 3, "二等奖": 10, "三等奖": 50, "参加人数": 840}',
    "blood": '{"value": 6.8, "reference": "3.9-6.1"}',
    "power": '{"kwh": 287, "bill_days": 30}',
    "ticket": '{"id": 4471, "comments": 170}',
    "cups": '{"杯数": 214, "营业额": 3638.0}',
    "screen": '{"total_minutes": 1266, "daily_minutes": [214, 198, 187]}',
    "trip": '{"distance_km": 312, "fuel_l": 19.4, "duration_min": 208}',
    "speed": '{"download_mbps": 287.4, "upload_mbps": 41.2}',
    "show": '{"acts": 5, "intervals": 1}',
    "shop": '[{"price": 89.99}, {"price": 94.5}]',
}


def invented(answer, name, question="?"):
    """The figures of an answer that do not follow from one result."""
    return check(answer, admissible=[question, JSON[name]], question=question).invented


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("2,251 tickets in all, 317 more in EMEA", "tickets"),
        ("about 57% of the 2,251 tickets are from EMEA", "tickets"),
        ("温差 6 度", "weather"),
        ("24,585 steps, on average 8,195", "week"),
        ("7% free; 22 points more than db-1", "disk"),
        ("折合每度约 0.59 元", "bill"),
        ("86.4 t, each of the four containers averages 21.6 t", "weight"),
        ("it takes 2 h 15 min, the other one 2 hours and 18 minutes", "trains"),
        ("due a week earlier, 7 days", "dates"),
        ("€184.49 for both; the second is about 5% dearer, by €4.51", "shop"),
        ("100 of them cost about €8,999", "shop"),
        ("two of the first for €179.98", "shop"),
        ("$1,079.88 a year", "shop"),
        ("€7.50 a month", "shop"),
        ("6.2 l/100 km, on average 90 km/h", "trip"),
        ("7 倍", "speed"),
        ("高出 0.7", "blood"),
        ("平均每杯 17 元", "cups"),
        ("共 63 份,中奖率约 7.5%(63/840)", "prizes"),
        ("€7.88 a month, €94.50", "shop"),
        ("6,010 of 8,120, that is 74%", "week"),
    ],
)
def test_what_follows_is_known(answer, name):
    """Sums, differences, products, shares, rates and means of what stands in one result."""
    assert invented(answer, name) == ()


@pytest.mark.parametrize(
    ("answer", "name", "figure"),
    [
        ("水温 25 度", "weather", "25"),
        ("24% of the tickets", "tickets", "24%"),
        ("8,195 steps more", "tickets", "8,195"),
        ("电费 0.59 元", "bill", "0.59 元"),
        ("it takes 4 hours", "trains", "4 hours"),
        ("three weeks", "dates", "three weeks"),
        ("€100.00", "shop", "€100.00"),
        ("10 of them", "shop", "10"),
        ("5.4 l/100 km", "trip", "5.4"),
        ("70 km/h", "trip", "70 km/h"),
        ("another 24 hours", "screen", "24 hours"),
        ("95 kg", "shop", "95 kg"),
        ("three seats", "show", "three seats"),
        ("降水概率 30%", "disk", "30%"),
        ("每天 9.57 元", "power", "9.57 元"),
        ("4,641 comments", "ticket", "4,641"),
        ("74% of it", "week", "74%"),
        ("an average of 1,126 hours", "tickets", "1,126 hours"),
    ],
)
def test_what_only_fits_by_chance_is_not(answer, name, figure):
    """A small sum of things that do not belong together, a quotient that is told as no rate."""
    assert invented(answer, name) == (figure,)


def test_a_number_of_the_question_may_be_multiplied_and_compared():
    """120 shares at a price; so much of the goal."""
    assert invented("24,585 of 70,000 steps, 35%", "week", "my goal is 70,000 steps") == ()
    assert invented("3 份共 506.70 元", "bill", "买 3 份多少钱?") == ()


def test_a_count_of_each_of_two_things_is_added_up():
    """Two adults and one child."""
    told = '{"adult": 150, "child": 75}'
    question = "2 个大人 1 个小孩多少钱?"

    assert check("共 375 元", admissible=[question, told], question=question).invented == ()
    assert check("共 425 元", admissible=[question, told], question=question).invented


def test_among_many_numbers_only_sums_with_digits_count():
    """Of 120 numbers almost every small one is some sum of two."""
    told = " ".join(f"{n * 1009 / 7:.2f}" for n in range(1, 121))
    total = f"{1009 / 7 + 120 * 1009 / 7:,.2f}"

    assert check(f"together {total}", admissible=[told]).invented == ()
    assert check("the difference is 23", admissible=[told]).invented == ("23",)


def test_a_value_that_is_told_twice_is_one():
    """In the question and by a tool: it is not added to itself."""
    told = '{"shares": 1180}'

    found = check("2,360 in all", admissible=["my 1,180?", told], question="my 1,180?").invented
    assert found == ("2,360",)


def test_half_a_kilogram_is_a_unit_of_its_own():
    """3.4 a kilogram are 1.7 for a 斤, where the answer speaks of it."""
    told = '{"price_per_kg": 3.4}'

    assert check("一斤 1.70 元", admissible=[told]).invented == ()
    assert check("每份 1.70 元", admissible=[told]).invented == ("1.70 元",)
