"""The calculator against others that are slower and surer, and against people who mean it no good."""

import statistics
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from time import process_time

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builtins.programs import exact, last, reading
from tests.machine import examples, is_quick

from finclaw.builtins.calculator import NAME, Calculator, calculator_tool
from finclaw.builtins.calculator.evaluate import calculate
from finclaw.builtins.calculator.functions import FUNCTIONS
from finclaw.builtins.calculator.steps import DEEPEST, LONGEST, CannotCalculate
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import ToolError
from finclaw.extensions.registrar import Registrar
from finclaw.extensions.registration import NULL_SERVICES
from finclaw.kernel.envelope import Sender
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import ToolScope
from finclaw.testing import FakeClock

SCOPE = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"))
NOW = datetime(2026, 11, 16, tzinfo=UTC)

# ── against fractions ───────────────────────────────────────────────────────────────────────────────────────

Tree = tuple[str, Fraction | None]
"""A text, and what it must be; None where it has no value."""


def _number(value: Decimal) -> Tree:
    return f"{value:,f}" if value >= 0 else f"({value:,f})", Fraction(value)


def _joined(parts: tuple[Tree, str, Tree]) -> Tree:
    (left, a), operator, (right, b) = parts
    text = f"({left}) {operator} ({right})"
    if a is None or b is None:
        return text, None
    match operator:
        case "+":
            return text, a + b
        case "-":
            return text, a - b
        case "*":
            return text, a * b
        case _:
            return text, a / b if b else None


def _raised(parts: tuple[Tree, int]) -> Tree:
    (base, value), exponent = parts
    possible = value is not None and (value != 0 or exponent > 0)
    return f"({base})^{exponent}", value**exponent if value is not None and possible else None


NUMBERS = st.decimals(-10_000, 10_000, places=3, allow_nan=False, allow_infinity=False).map(_number)
TREES: st.SearchStrategy[Tree] = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(_joined),
        inner.map(lambda tree: (f"-({tree[0]})", None if tree[1] is None else -tree[1])),
        inner.map(lambda tree: (f"({tree[0]})%", None if tree[1] is None else tree[1] / 100)),
        st.tuples(inner, st.integers(-3, 3)).map(_raised),
    ),
    max_leaves=12,
)


@given(TREES)
def test_any_tree_of_operations_is_what_fractions_say(tree: Tree) -> None:
    text, value = tree
    if value is None:
        with pytest.raises(CannotCalculate):
            last(text)
        return
    assume(max(value.numerator.bit_length(), value.denominator.bit_length()) < 3_000)
    found = last(text)
    assert isinstance(found, Decimal)
    assert abs(Fraction(found) - value) <= abs(value) / 10**40
    if max(abs(value.numerator), value.denominator) < 10**90:
        assert exact(text) == value


@given(TREES)
def test_the_reading_of_any_tree_is_worth_the_same(tree: Tree) -> None:
    text, value = tree
    assume(value is not None)
    again = reading(text)
    found = last(again)
    expected = last(text)
    assert isinstance(found, Decimal)
    assert isinstance(expected, Decimal)
    assert abs(Fraction(found) - Fraction(expected)) <= abs(Fraction(expected)) / 10**100


@given(st.lists(st.tuples(st.sampled_from("+-*/"), st.integers(1, 99)), max_size=30), st.integers(0, 99))
def test_operators_bind_as_they_do_in_python(links: list[tuple[str, int]], first: int) -> None:
    text = f"{first}" + "".join(f" {operator} {number}" for operator, number in links)
    in_python = f"Fraction({first})" + "".join(f" {operator} Fraction({number})" for operator, number in links)
    assert exact(text) == eval(in_python, {"Fraction": Fraction})


# ── against decimal and statistics ──────────────────────────────────────────────────────────────────────────

MONEY = st.decimals(Decimal("0.01"), 10**9, places=2, allow_nan=False, allow_infinity=False)
RATES = st.decimals(-99, 300, places=2, allow_nan=False, allow_infinity=False)


@given(MONEY, RATES)
def test_percents_of_money_are_what_decimal_says(amount: Decimal, rate: Decimal) -> None:
    with localcontext() as context:
        context.prec = 60
        grown = amount * (1 + rate / 100)
        assert exact(f"{amount:,f} + {rate}%") == Fraction(grown)
        assert exact(f"{amount:,f} - {rate}%") == Fraction(amount * (1 - rate / 100))
        assert exact(f"{rate}% of {amount:,f}") == Fraction(amount * rate / 100)
        assert exact(f"growth({amount:f}, {grown:f})") == Fraction(rate / 100)


@given(MONEY, st.integers(-3, 4))
@example(Decimal("0.5"), 0)
@example(Decimal("2.345"), 2)
def test_rounding_is_that_of_commerce(amount: Decimal, places: int) -> None:
    with localcontext() as context:
        context.prec = 60
        expected = amount.quantize(Decimal(1).scaleb(-places), "ROUND_HALF_UP")
    assert exact(f"round({amount:f}, {places})") == Fraction(expected)
    assert exact(f"round(-{amount:f}, {places})") == -Fraction(expected)


@given(st.lists(st.integers(-(10**6), 10**6).map(lambda cents: Fraction(cents, 100)), min_size=2, max_size=30))
def test_rows_are_what_statistics_says(row: list[Fraction]) -> None:
    text = ", ".join(f"{float(each):.2f}" for each in row)
    assert exact(f"average({text})") == statistics.mean(row)
    assert exact(f"median([{text}])") == statistics.median(row)
    assert exact(f"sum({text})") == sum(row)
    assert exact(f"max({text}) - min({text})") == max(row) - min(row)
    assert exact(f"round(stdev({text})^2, 12)") == exact(f"round({_written(statistics.variance(row))}, 12)")
    assert exact(f"round(stdevp({text})^2, 12)") == exact(f"round({_written(statistics.pvariance(row))}, 12)")


def _written(value: Fraction) -> str:
    return f"{value.numerator} / {value.denominator}"


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=12), st.integers(1, 100_000))
def test_the_rate_of_return_makes_the_flows_worth_nothing(later: list[int], now: int) -> None:
    flows = ", ".join(map(str, later))
    assert last(f"r = irr(-{now}, {flows}); round(npv(r, {flows}) - {now}, 15) == 0") is True


@given(st.integers(1, 480), st.integers(1, 2_000), st.integers(1, 10**6))
def test_the_values_of_annuities_fit_together(periods: int, rate_bp: int, amount: int) -> None:
    rate = f"{rate_bp}bp"
    assert last(f"x = pmt({rate}, {periods}, {amount}); round(pv({rate}, {periods}, x), 9) == {amount}") is True
    assert last(f"x = fv({rate}, {periods}, -{amount}); round(pmt({rate}, {periods}, 0, x), 9) == -{amount}") is True


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "nothing to calculate"),
        (";;\n", "nothing to calculate"),
        ("1 +", "missing near '1 +'"),
        ("1 + * 2", "missing near '+ * 2'"),
        ("1 2", "missing near '1 2'"),
        ("2x", "'x' is no unit"),
        ("(1 + 2", "bracket is missing near '( 1'"),
        ("1 + 2)", "bracket is missing near '2 )'"),
        ("sum(1; 2)", "bracket is missing near '1 ; 2'"),
        ("1 / 0", "1 / 0: this has no value: a division by zero"),
        ("1 / (0.1 + 0.2 - 0.3)", "division by zero"),
        ("1 / (sqrt(2)^2 - 2)", "division by zero"),
        ("divide(1, 0)", "divide(1, 0): this has no value: a division by zero"),
        ("9^9^9^9", "too large"),
        ("10^10001", "10^10001: the result is too large"),
        ("0.5^100000", "too large or too small"),
        ("10^9000 * 10^9000", "too large"),
        ("exp(10^6)", "too large"),
        ("0^0", "0^0: this has no value"),
        ("0^-1", "no value"),
        ("(-8)^(1/3)", "(-8)^(1 / 3): this has no value"),
        ("sqrt(-1)", "sqrt(-1): this has no value"),
        ("ln(0)", "ln(0): this has no value"),
        ("7 % 3", "near '% 3'; % means percent"),
        ("$5 + €3", "fx__convert"),
        ("₩5 < $3", "fx__convert"),
        ("5원 + 3달러", "fx__convert"),
        ("$ + 3", "'$' means nothing"),
        ("1,23", "'1,23': a thousands separator stands before every group of three digits"),
        ("1,2345", "three digits"),
        ("12,34,567", "three digits"),
        ("0,123", "three digits"),
        ("1.234,56", "separate arguments by commas, and steps by ;"),
        ("1.2.3", "one decimal point"),
        ("5.", "one decimal point"),
        ("max(100,200)", "'100,200' among a function's arguments may be one number or several"),
        ("[1,234, 5]", "one number or several"),
        ("growth(1,000, 2)", "one number or several"),
        ("add(1, 2), 300", "separate arguments by commas, and steps by ;"),
        ("1, 234", "separate arguments by commas, and steps by ;"),
        ("3억 5000", "unit of this part"),
        ("3만 5억", "operator is missing"),
        ("3억 20,000만", "operator is missing"),
        ("1.5억 3만", "operator is missing"),
        ("1e99999", "power of ten"),
        ("9" * 401, "more than 400 digits"),
        ("#0 + 1", "'#0' has no value"),
        ("1; #1", "'#1' has no value"),
        ("a + 1", "'a' has no value"),
        ("a = a", "'a' has no value"),
        ("sum = 3", "has a meaning already"),
        ("3 = 3", "write =="),
        ("1 < 2 < 3", "compare two numbers at a time"),
        ("(1 < 2) + 1", "1 < 2 is yes or no"),
        ("greater(1, 2) + 1", "greater(1, 2) is yes or no"),
        ("[1, 2] + 1", "[1, 2] is a row of numbers"),
        ("sum()", "was given 0"),
        ("growth(1)", "takes 2 numbers, and was given 1"),
        ("growth(-5, 5)", "growth(-5, 5): growth is measured from something above zero"),
        ("averge(1, 2)", "there is average"),
        ("irr(1, 2)", "no rate"),
        ("irr(-1, 3, -2)", "more than one rate"),
        ("round(1, 0.5)", "round(1, 0.5): the places to round to are a whole number"),
        ("pv(-1, 2, 3)", "above -1"),
        ("__import__('os').system('ls')", "'_' means nothing"),
        ("os.system", "'.' means nothing"),
        ("import os", "missing near 'import os'"),
        ("(lambda: 1)()", "means nothing"),
        ("'a' * 3", "means nothing"),
        ("{1: 2}", "means nothing"),
        ("１２ + 1", "digits are 0 to 9"),
        ("٣ + 1", "digits are 0 to 9"),
        ("1 + ²", "digits are 0 to 9"),
        ("1\x00", "means nothing"),
        ("1 + \ud800", "means nothing"),
        ("eval(1)", "no function 'eval'"),
        ("const_1__class__", "has no value"),
    ],
)
def test_an_error_names_the_piece_that_is_wrong(expression: str, why: str) -> None:
    with pytest.raises(CannotCalculate) as refused:
        last(expression)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "expression",
    [
        "sum(*a)",
        "a = [1]; sum(*a)",
        "a = [1]; sum(**a)",
        "(*1)",
        "sum(a = 1)",
        "a = b = 3",
        "5% = 3",
        "[1][0]",
        "5 (3)",
        "()",
        "a =",
        "a = 1, 2",
        "1 = = 2",
        "2 * * 3",
        "1) + (2",
        "(1, 2)",
        "(1]",
        "1 \n; * 2",
        "1" + "%" * 7_000,
        "2" + "^1" * 990,
    ],
)
def test_no_other_python_is_calculated(expression: str) -> None:
    with pytest.raises(CannotCalculate):
        calculate(expression, NOW)


@pytest.mark.parametrize(
    "expression",
    [
        "(10^300+1)-10^300",
        "sum(10^300, 1) - 10^300",
        "2^900 + 1 - 2^900",
        "2^800 + 1 - 2^800",
        "10^250 + 1 - 10^250",
        "10^240 + 1/3 - 10^240",
        "10^200 + 1/3 - 10^200",
        "exp(1000) + 1 - exp(1000)",
        "(10^140 + 1)^2 - 10^280",
        "(10^140 + 1) * (10^140 + 1) - 10^280 - 2 * 10^140",
        "3^600 - (3^300 + 1) * (3^300 - 1)",
        "3^600 == (3^300 + 1) * (3^300 - 1)",
        "3^500 - (3^250 + 1) * (3^250 - 1)",
    ],
)
def test_digits_beyond_the_exact_ones_are_refused_and_not_lost(expression: str) -> None:
    with pytest.raises(CannotCalculate, match="too many digits, or differ too much in size"):
        last(expression)


def test_a_long_figure_is_refused() -> None:
    assert exact("9" * 210 + " - " + "9" * 209 + "8") == 1
    assert exact("1" + "0" * 300) == 10**300
    assert last("1e300 / 1e299") == 10
    with pytest.raises(CannotCalculate, match="too many digits"):
        last("1" * 250)


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("10^209 + 1 - 10^209", 1),
        ("2^600 * 5^300 / 10^300", 2**300),
        ("2^690 - 2^689", 2**689),
        ("sqrt(2) * sqrt(3) - sqrt(6)", 0),
        ("1/3 + 1/6", Fraction(1, 2)),
        ("3 * (10^300 / 3)", 10**300),
        ("median(1, 10^200, 2, 10^200)", Fraction(10**200 + 2, 2)),
        ("(1 + 10^-30)^3", (1 + Fraction(1, 10**30)) ** 3),
        ("2^-300 * 2^300", 1),
        ("round(1.23456789012345, 10)", Fraction("1.2345678901")),
        ("round(1.5, 20)", Fraction("1.5")),
        ("round(1.5, 100)", Fraction("1.5")),
        ("round(16000000000, -10)", 20_000_000_000),
        ("round(16000000000, -100)", 0),
    ],
)
def test_what_fits_is_exact(expression: str, answer: Fraction) -> None:
    assert exact(expression) == answer


@pytest.mark.parametrize("expression", ["exp(1000) > 1", "2^900 > 2^899 * 1.5", "10^300 > 1/3", "10^-300 < 1"])
def test_sizes_are_compared_without_the_difference(expression: str) -> None:
    assert last(expression) is True


@pytest.mark.parametrize("expression", ["2^900", "1.05^360", "1.05^50 * 1.07^60", "fv(100%, 1000, -1)", "exp(1000)"])
def test_what_does_not_fit_is_marked(expression: str) -> None:
    assert "result: ≈ " in calculate(expression, NOW).content


@pytest.mark.parametrize("count", [900, 998])
def test_a_rate_of_return_of_many_flows_is_found(count: int) -> None:
    assert exact("irr(-100" + ", 1" * 99 + ", 101" + ", 0" * (count - 100) + ")") == Fraction(1, 100)
    assert "result: ≈ " in calculate("irr(-100" + ", 1" * count + ")", NOW).content


@pytest.mark.parametrize(
    "expression",
    ["none", "None", "[none]", "sum(1, none, 2)", "a = [1, none]; sum(a)", "none + 1", "a = none", "table_sum([none])"],
)
def test_none_stands_only_in_functions_of_tables(expression: str) -> None:
    with pytest.raises(CannotCalculate, match="none stands only among the arguments of table_sum"):
        last(expression)


def test_the_percentage_of_a_huge_part_is_told() -> None:
    assert f"(that is 1{'0' * 10_001}%)" in calculate("pct(10^9999, 1)", NOW).content
    with pytest.raises(CannotCalculate, match="differ too much in size"):
        calculate("growth(1, 10^9999)", NOW)


@pytest.mark.parametrize("link", ["+1", "*1", "-1", "^1", "+1%"])
def test_long_chains_are_refused_at_a_fixed_length(link: str) -> None:
    assert isinstance(last("1" + link * 200), Decimal)
    with pytest.raises(CannotCalculate, match="more than 200 operators in a row; use sum"):
        last("1" + link * 300)


def test_a_name_like_a_currency_is_still_a_name() -> None:
    assert exact("eur = 5; eur -3") == 2
    assert exact("won = 5; won (2)".replace(" (2)", "*(2)")) == 10


def test_a_mistyped_function_is_suggested() -> None:
    with pytest.raises(CannotCalculate) as refused:
        last("mediam(1, 2)")
    assert refused.value.suggestion is not None
    assert "median" in refused.value.suggestion


HOSTILE = {
    "100 KB of plus": "1+" * 50_000,
    "100 KB of brackets": "(" * 100_000,
    "brackets": "(" * 7_000 + "1" + ")" * 900,
    "signs": "-" * 7_900 + "1",
    "powers": "2" + "^2" * 3_900,
    "functions": "abs(" * 1_900,
    "rows": "[" * 7_900,
    "commas": "1" + ",111" * 1_900,
    "letters": "a" * 8_000,
    "steps": "#0;" * 2_000,
    "statements": "1;" * 4_000,
    "rows of rows": "a=[1, 1, 1, 1, 1, 1, 1, 1, 1, 1];" + "a=[a, a, a, a, a, a, a, a, a, a];" * 20,
    "many rates": f"sum({', '.join(['irr(-1, 2)'] * 500)})",
    "rows again and again": "x=[" + "1/7, 1/11, 1/13, " * 300 + "1];" + "median(x);" * 190,
    "a tower": "^".join(["99"] * 40),
    "roots": f"sum({', '.join(['7^(1/997)'] * 330)})",
    "long fractions": f"a=3^2500; b=7^1400; sum({', '.join(['a/b'] * 500)})",
    "averages of tiny numbers": f"x=[{', '.join(f'10^-{9_999 - n}' for n in range(480))}];" + "average(x);" * 40,
    "deviations of tiny numbers": f"x=[{', '.join(f'7/3^{n + 3_000}' for n in range(480))}];" + "stdevp(x);" * 40,
    "spaces": " " * 100_000,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_nothing_takes_long(what: str) -> None:
    began = process_time()
    with suppress(CannotCalculate):
        calculate(HOSTILE[what], NOW)
    assert is_quick(process_time() - began, 3.0)


@pytest.mark.parametrize(
    "what", ["100 KB of plus", "100 KB of brackets", "brackets", "signs", "powers", "rows of rows"]
)
def test_what_is_too_much_is_refused(what: str) -> None:
    with pytest.raises(CannotCalculate, match=f"{LONGEST}|{DEEPEST} deep|at most"):
        calculate(HOSTILE[what], NOW)


def test_as_deep_as_allowed_works() -> None:
    assert exact("(" * DEEPEST + "1" + ")" * DEEPEST) == 1
    assert exact("abs(" * DEEPEST + "7 - 8" + ")" * DEEPEST) == 1
    assert exact("1" + "+1" * 200) == 201
    with pytest.raises(CannotCalculate, match="use sum"):
        last("1" + "+1" * 1_000)


ALPHABET = st.sampled_from(
    [
        *"0123456789.,+-*/^()[]%;=<>#$€ \n",
        "sum(",
        "irr(",
        "a",
        "b",
        "억",
        "만 ",
        "bn",
        "of",
        "e9",
        "10% ",
        "== ",
        "none",
    ]
)


@settings(max_examples=examples(400))
@given(st.lists(ALPHABET, max_size=40).map("".join) | st.text(max_size=60))
def test_any_text_is_calculated_or_refused(text: str) -> None:
    with suppress(CannotCalculate):
        output = calculate(text, NOW)
        assert "\nresult: " in output.content
        assert all(fact.value.is_finite() for fact in output.facts)


# ── as a tool ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_as_an_extension_it_is_one_harmless_tool() -> None:
    registrar = Registrar(EventStream(), replace(NULL_SERVICES, clock=FakeClock(NOW)))
    registrar.load([Calculator()])
    (tool,) = registrar.tools.list()
    assert (tool.spec.name, tool.transactional, tool.parallel_safe, tool.group) == (NAME, False, True, "finance")
    assert "result: 138" in (await tool.run({"expression": "120 + 15%"}, SCOPE)).content


async def test_its_errors_are_for_the_model_to_read() -> None:
    tool = calculator_tool(FakeClock(NOW))
    with pytest.raises(ToolError, match="1 / 0: this has no value: a division by zero"):
        await tool.run({"expression": "1 / 0"}, SCOPE)


@pytest.mark.parametrize("name", ["max", "min", "table_max", "table_min", "sum", "average", "median", "stdevp"])
@pytest.mark.parametrize("given", ["7", "[7]", "-7", "7.5"])
def test_a_function_of_many_numbers_takes_one(name: str, given: str) -> None:
    """Security trial L5: the largest of one number is that number, and no TypeError."""
    result = calculate(f"{name}({given})", NOW).content.splitlines()[-2]
    assert result == ("result: 0" if name == "stdevp" else f"result: {given.strip('[]')}")


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("given", ["1", "0", "[]", "[1]", "1 > 0"])
def test_no_function_fails_in_another_way_than_it_says(name: str, given: str) -> None:
    """Security trial L5, all functions with any number of arguments."""
    for number in range(7):
        with suppress(CannotCalculate):
            calculate(f"{name}({', '.join([given] * number)})", NOW)


def test_a_result_names_the_facts_that_its_figures_are() -> None:
    old, new = (
        Fact(subject="AAPL", field="price", value=Decimal(value), as_of=NOW - timedelta(hours=hours), source="demo")
        for value, hours in (("190.50", 2), ("190.5", 1))
    )
    rate = Fact(subject="USD/KRW", field="rate", value=Decimal("1350.25"), as_of=NOW, source="demo")
    chance = Fact(subject="AAPL", field="splits", value=Decimal(2), as_of=NOW, source="demo")
    known = (new, rate, chance, old)
    (fact,) = calculate("a = 190.5 * 2; a + 1,350.25", NOW, known).facts[-1:]
    assert fact.inputs == (new.name, rate.name), "the newest of each, and no small figure"
    assert calculate("17 + 4", NOW, known).facts[0].inputs == ()
    assert calculate("17 + 4", NOW).facts[0].inputs == ()
