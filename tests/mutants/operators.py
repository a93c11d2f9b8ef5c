"""Small changes of a function's text, made by rule: what a slip of the hand would look like."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

# A swapped comparison goes wrong at the border, or always.
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
# Names that are easily taken for one another.
LOOK_ALIKE_GROUPS = (
    ("min", "max"),
    ("any", "all"),
    ("append", "appendleft"),
    ("popleft", "pop"),
    ("num_known", "num_prompt_tokens", "num_computed"),
    ("free_blocks", "ready_blocks", "total_blocks"),
    ("arrival_index", "admission_index"),
    ("max_num_batched_tokens", "max_prefill_tokens"),
    ("waiting", "parked"),
    ("num_outputs", "max_outputs"),
    ("start", "offloaded", "requested"),
    ("RECOMPUTE", "HOST"),
    ("PREEMPTED", "SWAPPED"),
    ("STOP", "LENGTH"),
    ("CANCELLED", "TIMEOUT"),
    ("last_step_ns", "joined_ns"),
    ("refused_at", "parked_refused_at"),
    ("refused_until_ns", "parked_refused_until_ns"),
    ("num_found_blocks", "published_blocks"),
    ("copies", "offloads"),
    ("step", "joined_step"),
)
LOOK_ALIKES = {
    group[index]: group[(index + 1) % len(group)] for group in LOOK_ALIKE_GROUPS for index in range(len(group))
}
DELETABLE = (
    ast.Expr,
    ast.Assign,
    ast.AugAssign,
    ast.Delete,
    ast.Return,
    ast.Raise,
    ast.Break,
    ast.Continue,
)


class Variant(NamedTuple):
    """One changed text of a function.

    Attributes:
        lines: of the source file, first and last, without one of which nothing is different.
        before: the text of the statement that is changed, its first line.
    """

    operator: str
    lines: tuple[int, int]
    before: str
    after: str
    tree: ast.Module


class _Site(NamedTuple):
    """A place in the tree whose node can be another."""

    operator: str
    statement: ast.stmt
    put: Callable[[], Callable[[], None]]


def variants(source: str, first_line: int) -> Iterator[Variant]:
    """All of a function whose text begins on `first_line` of its file."""
    tree = ast.parse(source)
    ast.increment_lineno(tree, first_line - 1)
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    for site in _sites(definition):
        before, lines = headline(site.statement), _lines(site.statement)
        undo = site.put()
        after = headline(_replaced(definition, site.statement))
        copy = ast.parse(ast.unparse(tree))
        undo()
        if after != before:
            yield Variant(site.operator, lines, before, after, copy)


def headline(statement: ast.stmt) -> str:
    """A statement in one line; of a compound one its head, with the way its body ends if that was changed."""
    text = ast.unparse(statement).splitlines()
    return text[0] if not getattr(statement, "mutated_end", None) else f"{text[0]} ... {text[-1].strip()}"


def _replaced(definition: ast.FunctionDef, statement: ast.stmt) -> ast.stmt:
    return getattr(statement, "replaced_by", statement)


def _lines(statement: ast.stmt) -> tuple[int, int]:
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        return statement.lineno, max(statement.lineno, body[0].lineno - 1)
    return statement.lineno, statement.end_lineno or statement.lineno


def _sites(definition: ast.FunctionDef) -> Iterator[_Site]:
    for statement in _statements(definition.body):
        yield from _of_statement(statement)
        if isinstance(statement, ast.Raise):
            # What an error says is no decision.
            continue
        for parent, field, index, node in _expressions(statement):
            for operator, other in _alternatives(node):
                yield _Site(operator, statement, _putting(parent, field, index, other))


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All, each in the list that holds it, without docstrings and assertions."""
    for index, statement in enumerate(body):
        if isinstance(statement, ast.Assert) or _is_docstring(statement):
            continue
        setattr(statement, "place", (body, index))  # noqa: B010 - ast nodes have no such field
        yield statement
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, field, None) or [])
        for handler in getattr(statement, "handlers", ()):
            yield from _statements(handler.body)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _of_statement(statement: ast.stmt) -> Iterator[_Site]:
    if isinstance(statement, DELETABLE):
        yield _Site("delete statement", statement, _standing_in(statement, ast.Pass()))
    if isinstance(statement, ast.Break):
        yield _Site("break or continue", statement, _standing_in(statement, ast.Continue()))
    if isinstance(statement, ast.Continue):
        yield _Site("break or continue", statement, _standing_in(statement, ast.Break()))
    if isinstance(statement, ast.AugAssign) and type(statement.op) in ARITHMETIC:
        other = ARITHMETIC[type(statement.op)]()
        yield _Site("arithmetic", statement, _putting(statement, "op", None, other))
        plain = ast.copy_location(ast.Assign([statement.target], statement.value), statement)
        yield _Site("assign once", statement, _standing_in(statement, plain))
    if isinstance(statement, ast.For | ast.While):
        yield _Site("first only", statement, _ending(statement))
    if isinstance(statement, ast.For):
        listed = ast.Call(ast.Name("list", ast.Load()), [statement.iter], [])
        turned = ast.Call(ast.Name("reversed", ast.Load()), [listed], [])
        yield _Site("other order", statement, _putting(statement, "iter", None, turned))
    if isinstance(statement, ast.If | ast.While):
        yield _Site("condition", statement, _putting(statement, "test", None, ast.Constant(False)))
    if isinstance(statement, ast.If):
        yield _Site("condition", statement, _putting(statement, "test", None, ast.Constant(True)))
    if isinstance(statement, ast.Return) and statement.value is not None:
        yield _Site("return nothing", statement, _putting(statement, "value", None, ast.Constant(None)))


def _expressions(statement: ast.stmt) -> Iterator[tuple[ast.AST, str, int | None, ast.expr]]:
    """Every expression of a statement that is not one of another statement, with the place that it stands in."""
    pending: list[ast.AST] = [statement]
    while pending:
        parent = pending.pop()
        for field, value in ast.iter_fields(parent):
            if field in ("annotation", "returns", "type_params", "decorator_list"):
                continue
            for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(node, ast.stmt | ast.ExceptHandler):
                    continue
                if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
                    yield parent, field, index, node
                if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr):
                    pending.append(node)


def _alternatives(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    for kind, make in _OPERATORS:
        if isinstance(node, kind):
            yield from make(node)


def _comparisons(node: ast.Compare) -> Iterator[tuple[str, ast.expr]]:
    for index, operator in enumerate(node.ops):
        ops = [*node.ops[:index], COMPARISONS[type(operator)](), *node.ops[index + 1 :]]
        yield "comparison", ast.Compare(node.left, ops, node.comparators)


def _arithmetic(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    if type(node.op) in ARITHMETIC:
        yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        yield "drop term", node.left


def _constants(node: ast.Constant) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node.value, bool):
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield "constant", ast.Constant(node.value + 1)
        yield "constant", ast.Constant(node.value - 1)


def _connectives(node: ast.BoolOp) -> Iterator[tuple[str, ast.expr]]:
    yield "and or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for index in range(len(node.values)):
        rest = [*node.values[:index], *node.values[index + 1 :]]
        yield "drop condition", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _negations(node: ast.UnaryOp) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node.op, ast.Not | ast.USub):
        yield "drop sign", node.operand


def _choices(node: ast.IfExp) -> Iterator[tuple[str, ast.expr]]:
    yield "condition", node.body
    yield "condition", node.orelse


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    for index in range(len(node.keywords)):
        yield "drop argument", ast.Call(node.func, node.args, [*node.keywords[:index], *node.keywords[index + 1 :]])
    if len(node.args) > 1 and not isinstance(node.args[-1], ast.Starred):
        yield "drop argument", ast.Call(node.func, node.args[:-1], node.keywords)
    is_order = isinstance(node.func, ast.Name) and node.func.id in ("sorted", "reversed")
    if is_order and node.args:
        yield "other order", ast.Call(ast.Name("list", ast.Load()), node.args[:1], [])


def _slices(node: ast.Slice) -> Iterator[tuple[str, ast.expr]]:
    if node.lower is not None:
        yield "slice", ast.Slice(None, node.upper, node.step)
    if node.upper is not None:
        yield "slice", ast.Slice(node.lower, None, node.step)
        yield "slice", ast.Slice(node.lower, ast.BinOp(node.upper, ast.Sub(), ast.Constant(1)), node.step)


def _names(node: ast.Name) -> Iterator[tuple[str, ast.expr]]:
    if node.id in ("min", "max", "any", "all"):
        yield "look-alike", ast.Name(LOOK_ALIKES[node.id], node.ctx)


def _attributes(node: ast.Attribute) -> Iterator[tuple[str, ast.expr]]:
    if node.attr in LOOK_ALIKES:
        yield "look-alike", ast.Attribute(node.value, LOOK_ALIKES[node.attr], node.ctx)


def _comprehensions(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Without a condition. Works on a copy: conditions are no expressions of the node itself."""
    fields: dict[str, Any] = dict(ast.iter_fields(node))
    for index, generator in enumerate(fields["generators"]):
        if generator.ifs:
            bare = ast.comprehension(generator.target, generator.iter, [], generator.is_async)
            generators = [*fields["generators"][:index], bare, *fields["generators"][index + 1 :]]
            yield "drop condition", type(node)(**{**fields, "generators": generators})


_OPERATORS: tuple[tuple[Any, Callable[[Any], Iterator[tuple[str, ast.expr]]]], ...] = (
    (ast.Compare, _comparisons),
    (ast.BinOp, _arithmetic),
    (ast.Constant, _constants),
    (ast.BoolOp, _connectives),
    (ast.UnaryOp, _negations),
    (ast.IfExp, _choices),
    (ast.Call, _calls),
    (ast.Slice, _slices),
    (ast.Name, _names),
    (ast.Attribute, _attributes),
    ((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _comprehensions),
)


def _putting(parent: ast.AST, field: str, index: int | None, other: ast.AST) -> Callable[[], Callable[[], None]]:
    """Put a node in a place; what puts the former one back."""

    def put() -> Callable[[], None]:
        holder: Any = parent if index is None else getattr(parent, field)
        if index is None:
            former = getattr(holder, field)
            setattr(holder, field, other)
            return lambda: setattr(holder, field, former)
        former = holder[index]
        holder[index] = other
        return lambda: holder.__setitem__(index, former)

    return put


def _standing_in(statement: ast.stmt, other: ast.stmt) -> Callable[[], Callable[[], None]]:
    def put() -> Callable[[], None]:
        body, index = getattr(statement, "place")  # noqa: B009 - ast nodes have no such field
        body[index] = other
        setattr(statement, "replaced_by", other)  # noqa: B010

        def undo() -> None:
            body[index] = statement
            delattr(statement, "replaced_by")

        return undo

    return put


def _ending(loop: ast.For | ast.While) -> Callable[[], Callable[[], None]]:
    """The loop is left behind its first turn."""

    def put() -> Callable[[], None]:
        loop.body.append(ast.Break())
        setattr(loop, "mutated_end", True)  # noqa: B010

        def undo() -> None:
            loop.body.pop()
            delattr(loop, "mutated_end")

        return undo

    return put
