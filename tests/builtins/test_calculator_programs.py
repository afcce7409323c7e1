"""Programs as financial questions have them: every answer is computed a second time, with fractions."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction as F

import pytest
from tests.builtins.programs import exact, last, reading

from finclaw.builtins.calculator.evaluate import calculate

PROGRAMS: list[tuple[str, F]] = [
    ("subtract(5829, 5735), divide(#0, 5735)", F(5829 - 5735, 5735)),
    ("subtract(5829, 5735)", F(94)),
    ("divide(100, 100), divide(3.8, #0)", F("3.8")),
    ("subtract(959.2, 991.1), divide(#0, 991.1)", (F("959.2") - F("991.1")) / F("991.1")),
    ("add(10, 20), add(#0, 30), divide(#1, const_3)", F(20)),
    ("multiply(const_100, 12.5), divide(#0, const_1000)", F("1.25")),
    ("divide(9413, 20.01), divide(8249, 9.48), subtract(#0, #1)", F(9413) / F("20.01") - F(8249) / F("9.48")),
    ("divide(607, 18.13)", F(607) / F("18.13")),
    ("multiply(607, 18.13), multiply(#0, const_m1)", -F(607) * F("18.13")),
    ("divide(const_1, const_4)", F(1, 4)),
    ("subtract(const_1, 35%), multiply(#0, 200)", F(130)),
    ("multiply(5.2%, 1500)", F(78)),
    ("divide(45, 300), multiply(#0, const_100)", F(15)),
    ("exp(1.05, const_2), subtract(#0, const_1)", F("0.1025")),
    ("exp(2, 10), divide(#0, 3)", F(1024, 3)),
    ("add(1.5, 2.25), subtract(#0, 0.75), multiply(#1, #0)", F(3) * F("3.75")),
    ("divide(subtract(12, 7), 7)", F(5, 7)),
    ("add(add(1, 2), add(3, 4))", F(10)),
    ("multiply(3.5, const_1000000), divide(#0, 250)", F(14000)),
    ("divide(23.6, 21.8), subtract(#0, const_1), multiply(#1, const_100)", (F("23.6") / F("21.8") - 1) * 100),
    ("subtract(-12.5, -14.5)", F(2)),
    ("divide(-7, 28)", F(-1, 4)),
    ("subtract(18.5, 20), divide(#0, 20), multiply(#1, const_m1)", F("0.075")),
    ("table_sum([1.5, 2.5, 3])", F(7)),
    ("table_average([10, 20, 40])", F(70, 3)),
    ("table_max([-1, -5, -0.5])", F("-0.5")),
    ("table_min([4, 2, 8])", F(2)),
    ("row = [12.1, 13.4, 15.9]; table_sum(row, none)", F("41.4")),
    ("row = [12.1, 13.4, 15.9]; table_max(row, none); table_min(row, none); subtract(#1, #2)", F("3.8")),
    ("row = [100, 110, 121]; table_average(row, none), divide(#1, 110)", F(331, 330)),
    ("divide(56, const_4), add(#0, const_1)", F(15)),
    ("add(3, 4), multiply(#0, #0)", F(49)),
    ("subtract(100, 25), subtract(#0, 25), subtract(#1, 25), divide(#2, #0)", F(1, 3)),
    ("divide(1, 3), multiply(#0, 3)", F(1)),
    ("divide(1, 7), divide(#0, 7), multiply(#1, 49)", F(1)),
    ("multiply(0.1, 3), subtract(#0, 0.3)", F(0)),
    ("add(0.1, 0.2)", F("0.3")),
    ("a = 1,234.5; b = a*3; b/a", F(3)),
    ("revenue = 79.1bn; cost = 51.3bn; (revenue - cost) / revenue", (F("79.1") - F("51.3")) / F("79.1")),
    ("매출 = 79.1조; 이익 = 9.2조; 이익 / 매출", F("9.2") / F("79.1")),
    ("old = 5,735; new = 5,829; (new - old) / old * 100", F(9400, 5735)),
    ("12,500 * 15%", F(1875)),
    ("120 + 15%", F(138)),
    ("120 - 15%", F(102)),
    ("120 + 15% + 10%", F("151.8")),
    ("(120 + 80) - 25%", F(150)),
    ("120 + (15%)", F("120.15")),
    ("120 + -15%", F(102)),
    ("10% + 5%", F("0.15")),
    ("10% + 5% + 100", F("100.15")),
    ("100 + 2*15%", F("100.3")),
    ("15% of 120 + 2", F(20)),
    ("100 / 25%", F(400)),
    ("(1 + 7%)^10", (1 + F("0.07")) ** 10),
    ("5% + 25bp", F("0.0525")),
    ("-2^2", F(-4)),
    ("(-2)^2", F(4)),
    ("2^3^2", F(512)),
    ("2^-2", F(1, 4)),
    ("--3", F(3)),
    ("6 / 2 * 3", F(9)),
    ("6 - 2 - 3", F(1)),
    ("1 / 3 + 1 / 6", F(1, 2)),
    ("pct(45, 180)", F(1, 4)),
    ("growth(80, 92)", F(3, 20)),
    ("growth(80, 60)", F(-1, 4)),
    ("change(80, 60)", F(-20)),
    ("cagr(100, 121, 2)", F(1, 10)),
    ("cagr(1,000,000, 1,331,000, 3)".replace(",000", "000").replace("1,331", "1331").replace("1,", "1"), F(1, 10)),
    ("compound(1000, 5%, 3)", 1000 * F("1.05") ** 3),
    ("compound(1000, 6%, 2, 12)", 1000 * F("1.005") ** 24),
    ("npv(10%, 110, 121)", F(200)),
    ("-200 + npv(10%, 110, 121)", F(0)),
    ("irr(-200, 110, 121)", F(1, 10)),
    ("irr(-100, 50)", F(-1, 2)),
    ("irr(100, -108)", F(2, 25)),
    ("pv(0, 10, -100)", F(1000)),
    ("pv(10%, 2, 0, -121)", F(100)),
    ("pv(25%, 2, -100)", F(144)),
    ("fv(10%, 2, 0, -100)", F(121)),
    ("fv(10%, 2, -100)", F(210)),
    ("fv(10%, 2, -100, 0, 1)", F(231)),
    ("pmt(10%, 2, 210)", -F(210) * F("1.21") * F("0.1") / F("0.21")),
    ("pmt(0, 12, 1200)", F(-100)),
    ("round(2.345, 2)", F("2.35")),
    ("round(-2.5)", F(-3)),
    ("round(1234.5, -2)", F(1200)),
    ("floor(-1.5) + ceil(-1.5)", F(-3)),
    ("median(5, 1, 4, 2)", F(3)),
    ("stdev(2, 4, 4, 4, 5, 5, 7, 9, 5)^2", F(4)),
    ("stdevp(2, 4, 4, 4, 5, 5, 7, 9)", F(2)),
    ("sqrt(6.25) + abs(-1)", F("3.5")),
    ("log10(1000) + ln(1) + exp(0)", F(4)),
    ("sum(1, 2, 3) / count(1, 2, 3) - average([1, 2, 3])", F(0)),
    ("8^(2/3)", F(4)),
]


@pytest.mark.parametrize(("program", "answer"), PROGRAMS)
def test_a_program_and_what_was_understood_of_it_have_the_answer_to_the_last_digit(program: str, answer: F) -> None:
    assert exact(program) == answer
    assert exact(reading(program)) == answer


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("greater(3, 2)", True),
        ("less(3, 2)", False),
        ("divide(7, 3), divide(9, 4), greater(#0, #1)", True),
        ("0.1 + 0.2 == 0.3", True),
        ("1/3 * 3 != 1", False),
        ("sqrt(2)^2 == 2", True),
        ("sqrt(2) < 1.41422", True),
        ("5억 >= 500,000,000", True),
        ("5 ≤ 4", False),
    ],
)
def test_questions_of_yes_or_no(program: str, answer: bool) -> None:
    assert last(program) is answer


@pytest.mark.parametrize(
    ("program", "digits"),
    [
        ("1 / 3", "0.3333333333333333333333333333"),
        ("2 / 3", "0.6666666666666666666666666667"),
        ("sqrt(2)", "1.414213562373095048801688724"),
        ("ln(2)", "0.6931471805599453094172321215"),
        ("exp(1)", "2.718281828459045235360287471"),
        ("log10(2)", "0.3010299956639811952137388947"),
        ("2^0.5", "1.414213562373095048801688724"),
        ("pmt(0.05/12, 360, 200000)", "-1073.643246024277969656985158"),
        ("cagr(100, 200, 7)", "0.1040895136738123376495053876"),
        ("irr(-100, 60, 60)", "0.1306623862918074852584262745"),
    ],
)
def test_what_has_no_end_is_said_to_be_rounded(program: str, digits: str) -> None:
    lines = dict(line.split(": ", 1) for line in calculate(program, datetime.now(UTC)).content.splitlines())
    assert lines["result"].split(" (")[0] == f"≈ {digits}"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1,234,567.89", F("1234567.89")),
        (".5", F(1, 2)),
        ("1e3", F(1000)),
        ("1.5E-3", F("0.0015")),
        ("1.2조", F(1_200_000_000_000)),
        ("3,400만", F(34_000_000)),
        ("5억", F(500_000_000)),
        ("3천", F(3000)),
        ("5천만", F(50_000_000)),
        ("2백억", F(20_000_000_000)),
        ("1조 2,000억", F(1_200_000_000_000)),
        ("1조2000억", F(1_200_000_000_000)),
        ("3억 5,000만원", F(350_000_000)),
        ("1조 2,000억 3,400만", F(1_200_034_000_000)),
        ("1만 5000", F(15_000)),
        ("4k", F(4000)),
        ("4K", F(4000)),
        ("2.5m", F(2_500_000)),
        ("2.5mn", F(2_500_000)),
        ("3bn", F(3 * 10**9)),
        ("1.1trn", F(11 * 10**11)),
        ("5 million", F(5_000_000)),
        ("1.5 Billion", F(15 * 10**8)),
        ("$4.2bn", F(42 * 10**8)),
        ("₩1,000", F(1000)),
        ("-$5", F(-5)),
        ("$-5", F(-5)),
        ("100 USD", F(100)),
        ("EUR 12", F(12)),
        ("10달러", F(10)),
        ("$(2+3)", F(5)),
        ("const_m1", F(-1)),
        ("const_100", F(100)),
        ("25bps", F(1, 400)),
    ],
)
def test_numbers_as_people_write_them(written: str, value: F) -> None:
    assert exact(written) == value
    assert exact(f"1 + {written} * 2") == 1 + 2 * value


async def test_it_says_what_it_understood_and_where_each_figure_comes_from() -> None:
    now = datetime(2026, 11, 16, tzinfo=UTC)
    output = calculate("base = $1,200;\n  base + 15%; growth(base, #1)", now)
    assert output.content.splitlines() == [
        "expression: base = $1,200; base + 15%; growth(base, #1)",
        "reading: base = 1200; base * (1 + 15/100); growth(base, #1)",
        "currency: $, left out of the arithmetic",
        "base: 1200",
        "#1: 1380",
        "result: 0.15 (that is 15%)",
        "source: calculator",
    ]
    assert [(fact.field, fact.value, fact.unit) for fact in output.facts] == [
        ("base", Decimal(1200), ""),
        ("#1", Decimal(1380), ""),
        ("result", Decimal("0.15"), ""),
        ("result_percent", Decimal(15), "%"),
    ]
    assert {(fact.source, fact.as_of) for fact in output.facts} == {("calculator", now)}


SAME: list[tuple[str, Callable[[], str]]] = [
    ("2^300", lambda: str(2**300)),
    ("0.1^30", lambda: "0." + "0" * 29 + "1"),
    ("123456789012345678901234567890 * 10^20", lambda: "12345678901234567890123456789" + "0" * 21),
]


@pytest.mark.parametrize(("program", "digits"), SAME)
def test_all_digits_of_what_ends_are_told(program: str, digits: Callable[[], str]) -> None:
    assert f"\nresult: {digits()}\n" in calculate(program, datetime.now(UTC)).content
