"""What does an instruction compute by AMD's own text? Evaluates the pseudocode of the ISA documents, a statement at a time,
on exact numbers. It knows the language of that text and nothing of hip-sim."""

import math
import re
from fractions import Fraction

FORMATS = {16: (11, -14, 15), 32: (24, -126, 127), 64: (53, -1022, 1023)}
FIELD = {16: 10, 32: 23, 64: 52}


def to_float(bits, width):
    """The value of the bits of a float, exactly, as a Python float."""
    exponent_bits = width - 1 - FIELD[width]
    sign = -1.0 if bits >> (width - 1) else 1.0
    exponent = bits >> FIELD[width] & (1 << exponent_bits) - 1
    mantissa = bits & (1 << FIELD[width]) - 1
    if exponent == (1 << exponent_bits) - 1:
        return math.nan if mantissa else sign * math.inf
    bias = (1 << exponent_bits - 1) - 1
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - FIELD[width])
    return sign * math.ldexp(mantissa | 1 << FIELD[width], exponent - bias - FIELD[width])


def round_exact(value, width):
    """A number rounded once to a float of this width, to nearest even, as bits; the sign of zero is +."""
    precision, lowest, highest = FORMATS[width]
    sign, value = (1, -value) if value < 0 else (0, value)
    if value == 0:
        return 0
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if Fraction(2) ** exponent > value:
        exponent -= 1
    exponent = max(exponent, lowest)
    unit = Fraction(2) ** (exponent - precision + 1)
    steps = value / unit
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1)
    if whole >= 1 << precision:
        whole, exponent = whole >> 1, exponent + 1
    if exponent > highest:
        return sign << width - 1 | (2 * highest + 1) << FIELD[width]
    biased = exponent - lowest + 1 if whole >= 1 << precision - 1 else 0
    return sign << width - 1 | biased << FIELD[width] | whole & (1 << FIELD[width]) - 1


def from_float(value, width):
    """The bits of a Python float or exact number, rounded to this width."""
    if isinstance(value, float):
        if math.isnan(value):
            return {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8 << 48}[width]
        sign = int(math.copysign(1, value) < 0) << width - 1
        if math.isinf(value):
            return sign | ((1 << width - 1 - FIELD[width]) - 1) << FIELD[width]
        return sign | round_exact(abs(Fraction(value)), width)
    return round_exact(Fraction(value), width)


class Value:
    """Bits of some width, read as one of u, i, f or b."""

    def __init__(self, kind, width, bits):
        self.kind, self.width, self.bits = kind, width, bits & (1 << width) - 1

    def number(self):
        if self.kind == "f":
            return to_float(self.bits, self.width)
        if self.kind == "i" and self.bits >> self.width - 1:
            return self.bits - (1 << self.width)
        return self.bits

    def as_type(self, kind, width):
        return Value(kind, width, self.bits)


def number_of(value):
    return value.number() if isinstance(value, Value) else value


def make(kind, width, number):
    if kind == "f":
        return Value("f", width, from_float(number if isinstance(number, (float, Fraction)) else Fraction(number), width))
    if isinstance(number, float):
        number = 0 if math.isnan(number) else int(number)
    return Value(kind, width, number)


TOKEN = re.compile(
    r"\s*(?:(//[^\n]*)|(\d+'0x[0-9a-fA-F]+|\d+'\d+\.?\d*[UIF]?|\d+'[UIFB]\b|0x[0-9a-fA-F]+(?:ULL|LL|U)?"
    r"|\d+\.\d+F?|\d+(?:ULL|LL|U|F)?|[A-Za-z_][A-Za-z_0-9]*"
    r"|\*\*|\+=|-=|\|=|&=|<<|>>|==|!=|<>|<=|>=|&&|\|\||[-+*/%&|^~!<>=?:;,.(){}\[\]]))"
)


def tokens_of(text):
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        found = TOKEN.match(text, at)
        if not found:
            raise SyntaxError(f"pseudocode: {text[at:at + 40]!r}")
        at = found.end()
        if found.group(2):
            tokens.append(found.group(2))
    return tokens


class Return(Exception):
    pass


class Break(Exception):
    pass


LEVELS = [
    ["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!=", "<>"], ["<", "<=", ">", ">="], ["<<", ">>"], ["+", "-"],
    ["*", "/", "%"], ["**"],
]
TYPE = re.compile(r"^([uifb]|bf)(\d+)$")


class Machine:
    """Runs one text. `state` maps names to values; what is assigned is found there afterwards."""

    def __init__(self, text, state, functions):
        self.tokens, self.at = tokens_of(text), 0
        self.state, self.functions = state, functions
        self.skipping = False

    # ---- tokens

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else None

    def take(self, *expected):
        token = self.peek()
        if expected and token not in expected:
            raise SyntaxError(f"{token!r} where {expected} is expected")
        self.at += 1
        return token

    def accept(self, token):
        if self.peek() == token:
            self.at += 1
            return True
        return False

    # ---- statements

    def run(self):
        self.block(None)

    def block(self, ends):
        while self.peek() is not None and (ends is None or self.peek() not in ends):
            self.statement()
            while self.accept(";"):
                pass

    def skip(self, ends):
        depth = 0
        while depth or self.peek() not in ends:
            token = self.take()
            depth += (token in ("if", "for")) - (token in ("endif", "endfor"))

    def statement(self):
        token = self.peek()
        if token == "if":
            return self.conditional()
        if token == "for":
            return self.loop()
        if token == "break":
            self.take()
            raise Break
        if token == "return":
            self.take()
            raise Return(self.expression())
        if token == "declare":
            return self.declaration()
        if self.peek(1) == "=" and self.peek(2) == "lambda":
            return self.function()
        if token == "{":
            return self.assign_parts()
        if re.match(r"[a-z_]", token) and self.peek(1) == "(":
            return self.expression()
        place = self.place()
        operator = self.take("=", "+=", "-=", "|=", "&=")
        value = self.expression()
        if operator != "=":
            value = self.binary(operator[0], self.read(place), value)
        self.write(place, value)

    def conditional(self):
        self.take("if")
        done = False
        while True:
            condition = bool(number_of(self.expression())) if not done else self.skip_condition()
            self.take("then")
            if condition and not done:
                self.block(("elsif", "else", "endif"))
                done = True
            else:
                self.skip(("elsif", "else", "endif"))
            word = self.take()
            if word == "else":
                self.skip(("endif",)) if done else self.block(("endif",))
                word = self.take()
            if word == "endif":
                return

    def skip_condition(self):
        while self.peek() != "then":
            self.take()
        return False

    def loop(self):
        self.take("for")
        name = self.take()
        self.take("in")
        first = number_of(self.expression())
        self.take(":")
        last = number_of(self.expression())
        self.take("do")
        start = self.at
        for index in range(first, last + 1):
            self.at = start
            self.state[name] = index
            try:
                self.block(("endfor",))
            except Break:
                break
        self.at = start
        self.skip(("endfor",))
        self.take("endfor")

    def declaration(self):
        self.take("declare")
        name = self.take()
        self.take(":")
        width, kind = self.take().rstrip("(").split("'") if "'" in self.peek() else ("32", "U")
        if self.accept("["):
            count = number_of(self.expression())
            self.take("]")
            self.state.setdefault(name, [Value(kind.lower(), int(width), 0) for _ in range(count)])
        else:
            self.state.setdefault(name, Value(kind.lower(), int(width), 0))

    def function(self):
        name = self.take()
        self.take("=")
        self.take("lambda")
        self.take("(")
        parameters = []
        while not self.accept(")"):
            parameters.append(self.take())
            self.accept(",")
        self.take("(")
        depth, body = 1, []
        while depth:
            token = self.take()
            depth += (token == "(") - (token == ")")
            body.append(token)
        self.functions = {**self.functions, name: (parameters, body[:-1])}

    def call(self, name, arguments):
        function = self.functions.get(name)
        if function is None:
            raise NameError(f"function {name}")
        if callable(function):
            return function(*arguments)
        parameters, body = function
        inner = Machine("", {**self.state, **dict(zip(parameters, arguments))}, self.functions)
        inner.tokens = body
        if body[0] in ("declare", "if", "for", "return"):
            try:
                inner.block(None)
            except Return as result:
                return result.args[0]
            raise SyntaxError(f"{name} returns nothing")
        return inner.expression()

    # ---- places: a name with indices, slices and a type

    def place(self):
        parts = [self.take()]
        while self.peek() in ("[", "."):
            if self.accept("["):
                high = self.expression()
                low = self.expression() if self.accept(":") else None
                self.take("]")
                parts.append((number_of(high), None if low is None else number_of(low)))
            else:
                self.take(".")
                parts.append(self.take())
        return parts

    def assign_parts(self):
        self.take("{")
        places = [self.place()]
        while self.accept(","):
            places.append(self.place())
        self.take("}")
        self.take("=")
        bits = number_of(self.expression())
        for place in reversed(places):
            kind, width = TYPE.match(place[-1]).groups()
            self.write(place, Value(kind, int(width), bits))
            bits >>= int(width)

    def read(self, place):
        value = self.state[place[0]]
        for part in place[1:]:
            value = select(value, part)
        return value

    def write(self, place, value):
        self.state[place[0]] = self.replaced(self.state.get(place[0]), place[1:], value)

    def replaced(self, old, parts, value):
        if not parts:
            if isinstance(old, Value) and isinstance(value, (int, float)):
                return make(old.kind, old.width, value)
            return value
        part, rest = parts[0], parts[1:]
        if isinstance(old, list):
            new = list(old)
            new[part[0]] = self.replaced(old[part[0]], rest, value)
            return new
        old = old if isinstance(old, Value) else Value("u", 64, old or 0)
        if isinstance(part, str):
            kind, width = TYPE.match(part).groups()
            width = int(width)
            if not rest:
                new = convert(value, kind, width)
                return Value(kind, max(width, old.width), old.bits >> width << width | new.bits)
            new = self.replaced(old.as_type(kind, width), rest, value)
            return Value(kind, max(width, old.width), old.bits >> width << width | new.bits)
        high, low = part if part[1] is not None else (part[0], part[0])
        width = high - low + 1
        new = self.replaced(Value("u", width, old.bits >> low), rest, value) if rest else convert(value, "u", width)
        mask = (1 << width) - 1 << low
        return Value(old.kind, max(old.width, high + 1), old.bits & ~mask | (new.bits << low) & mask)

    # ---- expressions

    def expression(self):
        condition = self.level(0)
        if not self.accept("?"):
            return condition
        first = self.expression()
        self.take(":")
        second = self.expression()
        return first if number_of(condition) else second

    def level(self, depth):
        if depth == len(LEVELS):
            return self.unary()
        left = self.level(depth + 1)
        while self.peek() in LEVELS[depth]:
            left = self.binary(self.take(), left, self.level(depth + 1))
        return left

    def unary(self):
        token = self.peek()
        if token == "!":
            self.take()
            return Value("u", 1, not number_of(self.unary()))
        if token == "~":
            self.take()
            value = self.unary()
            return Value(value.kind, value.width, ~value.bits) if isinstance(value, Value) else ~value
        if token == "-":
            self.take()
            value = self.unary()
            if isinstance(value, Value) and value.kind == "f":
                return Value("f", value.width, value.bits ^ 1 << value.width - 1)
            return make(value.kind, value.width, -value.number()) if isinstance(value, Value) else -value
        if token == "+":
            self.take()
            return self.unary()
        return self.postfix(self.primary())

    def postfix(self, value):
        while self.peek() in ("[", "."):
            if self.accept("."):
                value = select(value, self.take())
            else:
                self.take("[")
                high = number_of(self.expression())
                low = number_of(self.expression()) if self.accept(":") else None
                self.take("]")
                value = select(value, (high, low))
        return value

    def primary(self):
        token = self.take()
        if token == "(":
            value = self.expression()
            self.take(")")
            return value
        if token == "{":
            parts = [self.expression()]
            while self.accept(","):
                parts.append(self.expression())
            self.take("}")
            bits = width = 0
            for part in parts:
                bits, width = bits << part.width | part.bits, width + part.width
            return Value("u", width, bits)
        if re.match(r"\d+'[UIFB]$", token):
            width, kind = token.split("'")
            self.take("(")
            value = self.expression()
            self.take(")")
            return cast(value, kind.lower(), int(width))
        if re.match(r"\d", token):
            return literal(token)
        if self.peek() == "(":
            self.take("(")
            arguments = []
            while not self.accept(")"):
                arguments.append(self.expression())
                self.accept(",")
            return self.call(token, arguments)
        if token in ("INF", "PI"):
            return math.inf if token == "INF" else math.pi
        if token in self.state:
            return self.state[token]
        raise NameError(token)

    def binary(self, operator, left, right):
        a, b = number_of(left), number_of(right)
        if operator in ("||", "&&"):
            return Value("u", 1, (a or b) != 0 if operator == "||" else bool(a) and bool(b))
        compare = {"==": a == b, "!=": a != b, "<>": a < b or a > b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
        if operator in compare:
            return Value("u", 1, compare[operator])
        kind, width = common_type(left, right, operator)
        if operator == "**" and isinstance(b, int):
            # A power of two whatever the exponent is: exact, and far outside every float where it is huge.
            return Fraction(int(a)) ** max(-5000, min(5000, b))
        if any(isinstance(x, Fraction) for x in (a, b)) and width is None:
            width = 64
        if kind == "f":
            return Value("f", width, float_operation(operator, a, b, width))
        result = {
            "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "&": lambda: a & b, "|": lambda: a | b,
            "^": lambda: a ^ b, "<<": lambda: a << b, ">>": lambda: a >> b, "/": lambda: a // b if b else 0,
            "%": lambda: a % b, "**": lambda: a ** b,
        }[operator]()
        return result if width is None else Value(kind, width, result)


def select(value, part):
    if isinstance(part, str):
        if not TYPE.match(part):
            return Value("u", 1, 0)  # A field of a register that says how to work: off.
        kind, width = TYPE.match(part).groups()
        if isinstance(value, float):
            return make(kind, int(width), value)
        bits = value.bits if isinstance(value, Value) else value
        return Value(kind, int(width), bits)
    if isinstance(value, list):
        return value[part[0]]
    high, low = part if part[1] is not None else (part[0], part[0])
    bits = value.bits if isinstance(value, Value) else value
    if high < low:
        # From the lowest to the highest: the bits in reverse.
        return Value("u", low - high + 1, int(f"{bits >> high & (1 << low - high + 1) - 1:0{low - high + 1}b}"[::-1], 2))
    return Value("u", high - low + 1, bits >> low)


def convert(value, kind, width):
    """For an assignment: bits are kept unless a number has to become a float."""
    if not isinstance(value, Value):
        return make(kind, width, value)
    if kind == "f" and value.kind == "f" and value.width != width:
        return make("f", width, value.number())
    if value.kind == "i" and value.width < width:
        return Value(kind, width, value.number())
    return Value(kind, width, value.bits)


def cast(value, kind, width):
    if isinstance(value, Value) and value.kind == "f":
        if kind == "f" and width < value.width:
            return make("f", width, value.number())
        number = value.number()
        if kind == "f":
            return Value("f", width, from_float(number, width))
        return Value(kind, width, 0 if math.isnan(number) else int(number))
    if kind == "f" and isinstance(value, Value) and value.kind in "ui":
        return make("f", width, value.number())
    if kind == "f" and isinstance(value, int):
        return Value("f", width, value)
    return make(kind, width, number_of(value))


def literal(token):
    sized = re.match(r"(\d+)'(.*)$", token)
    if sized:
        text = sized.group(2).rstrip("UIF") if not sized.group(2).startswith("0x") else sized.group(2)
        if "." in text:
            return make("f", int(sized.group(1)), float(text))
        return Value("i" if token.endswith("I") else "u", int(sized.group(1)), int(text, 0))
    if token.startswith("0x"):
        suffix = "LL" in token
        return Value("u", 64 if suffix else 32, int(re.sub("[UL]+$", "", token), 16))
    if "." in token or token.endswith("F"):
        return make("f", 32, float(token.rstrip("F"))) if token.endswith("F") else float(token)
    if token.endswith("U"):
        return Value("u", 32, int(token[:-1]))
    return int(re.sub("[UL]+$", "", token))


def common_type(left, right, operator):
    values = [value for value in (left, right) if isinstance(value, Value)]
    if any(isinstance(value, (float, Fraction)) for value in (left, right)) or any(value.kind == "f" for value in values):
        return "f", max([value.width for value in values if value.kind == "f"] or [64])
    if operator in ("<<", ">>"):
        return (left.kind, max(left.width, 32)) if isinstance(left, Value) else ("i", None)
    if not values:
        return "i", None
    width = max(value.width for value in values)
    kinds = {value.kind for value in values if value.width == width}
    return ("i" if kinds == {"i"} else "u"), width


def float_operation(operator, a, b, width):
    if any(math.isnan(x) for x in (a, b) if isinstance(x, float)):
        return from_float(math.nan, width)
    if operator == "**":
        if a == 0 or math.isinf(a):
            return from_float(float(a), width)
        return from_float(float(a) ** b, width)
    a, b = [x if isinstance(x, Fraction) else float(x) for x in (a, b)]
    if isinstance(b, Fraction) and (math.isinf(a) or a == 0):
        return from_float(a, width)
    if isinstance(b, Fraction):
        exact = Fraction(a) * b
        return from_float(exact, width) | (1 << width - 1 if exact < 0 else 0)
    if operator == "/" and b == 0:
        sign = math.copysign(1, a) * math.copysign(1, b)
        return from_float(math.nan if a == 0 else sign * math.inf, width)
    if math.isinf(a) or math.isinf(b) or a == 0 or b == 0:
        result = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[operator]()
        return from_float(result, width)
    x, y = Fraction(a), Fraction(b)
    exact = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y}[operator]()
    bits = from_float(exact, width)
    if operator in "*/" and exact < 0 and bits == 0:
        bits = 1 << width - 1
    return bits
