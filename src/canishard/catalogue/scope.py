"""What a piece of syntax does with names: which it binds, which it reads, and which it may change.

A name counts where it stands for something of its module: what is local to a function does not. The module's top level
is run when it is imported, so what stands there is told from what stands in a function's body, which runs when the
function is called. Where it cannot be told what a piece does, it is taken to do it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Reference = tuple[str, str]
"""A name, and the attribute that is asked of it; empty where it stands by itself."""

OPAQUE = frozenset({"globals", "locals", "vars", "exec", "eval", "__import__"})
"""What reads or binds names that nobody can see."""


Effect = tuple[str, str, str]
"""How something may be changed (``STORED``, ``ASKED``, ``PASSED`` or ``LOOKED``), and the reference to it."""
STORED, ASKED, PASSED, LOOKED = "stored", "asked", "passed", "looked"
"""An attribute or item is set; a method is called; it is an argument; a builtin that only looks, or a loop, takes it."""


@dataclass
class Facts:
    """What a top-level statement does; see the module's docstring."""

    binds: set[str] = field(default_factory=set)
    reads: set[Reference] = field(default_factory=set)
    read_at_import: set[Reference] = field(default_factory=set)
    effects: set[Effect] = field(default_factory=set)
    """What running the statement may change, besides what it binds."""
    effects_when_called: set[Effect] = field(default_factory=set)
    """What functions in it may change or bind (``global``) when they are called."""
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    """The imports in it, wherever they stand."""
    calls: bool = False
    """Whether running it calls something, other than what only looks."""
    is_bare: bool = False
    """Whether it, or a statement in it, is run for its effect alone: a call by itself, an assertion."""
    is_opaque: bool = False
    """Whether it reads or binds names that nobody can see."""


DECORATOR = "check"
"""The decorator that declares a check."""
DECLARING = frozenset({DECORATOR, "Row", "Stage"})
"""What declares: it keeps its arguments as they are."""
LOOKING = frozenset(
    {
        *(
            "tuple",
            "list",
            "dict",
            "set",
            "frozenset",
            "len",
            "sorted",
            "range",
            "str",
            "int",
            "float",
            "bool",
        ),
        *(
            "min",
            "max",
            "sum",
            "abs",
            "zip",
            "enumerate",
            "reversed",
            "repr",
            "any",
            "all",
            "isinstance",
            "issubclass",
        ),
    }
)
"""Builtins that change none of their arguments, iterators aside."""


def facts(node: ast.stmt) -> Facts:
    """Return what a top-level statement does."""
    visitor = _Visitor()
    visitor.found.binds.update(bound([node]))
    visitor.visit(node)
    return visitor.found


def bound(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that pieces of syntax bind in the scope that they stand in."""
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, Definition):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest
        if isinstance(node, Comprehension):  # Its own names are its own; what := binds in it is not.
            inner = [one for one in ast.walk(node) if isinstance(one, ast.NamedExpr)]
            yield from bound(one.target for one in inner)
        elif isinstance(node, Definition):
            yield from bound(node.decorator_list)
        elif not isinstance(node, ast.Lambda):
            yield from bound(ast.iter_child_nodes(node))


def _root(node: ast.AST) -> tuple[str | None, str]:
    """Return the name that attributes and items are taken of, and the first attribute; None for anything else."""
    first = ""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        first = node.attr if isinstance(node, ast.Attribute) else ""
        node = node.value
    if isinstance(node, ast.Call):  # T.get("a").append(1): what T holds is changed.
        return _root(node.func)
    return (node.id, first) if isinstance(node, ast.Name) else (None, "")


class _Visitor(ast.NodeVisitor):
    """Collects what a statement does."""

    def __init__(self) -> None:
        self.found = Facts()
        self.locals: list[frozenset[str]] = []
        """Of each function around: its own names."""
        self.is_deferred = False
        """Whether what is looked at runs only when a function is called."""

    # -- names --------------------------------------------------------------------------------------------

    def _is_free(self, name: str) -> bool:
        return not any(name in own for own in self.locals)

    def _read(self, name: str, attribute: str) -> None:
        if self._is_free(name):
            self.found.reads.add((name, attribute))
            self.found.is_opaque |= name in OPAQUE
            if not self.is_deferred:
                self.found.read_at_import.add((name, attribute))

    def _change(self, kind: str, name: str | None, attribute: str) -> None:
        if name is None:  # Of what a call returns, say: nobody knows whose it is.
            self.found.is_bare |= not self.is_deferred
        elif self._is_free(name):
            effects = self.found.effects_when_called if self.is_deferred else self.found.effects
            effects.add((kind, name, attribute))

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node.id, "")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._change(STORED, *_root(node))
        if isinstance(node.value, ast.Name):
            self._read(node.value.id, node.attr)
        else:
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._change(STORED, *_root(node))
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.found.reads.update((name, "") for name in node.names)
        self.found.effects_when_called.update((STORED, name, "") for name in node.names)

    # -- what runs code -----------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if called not in DECLARING | LOOKING:
            self.found.calls |= not self.is_deferred
        if not called and _root(node.func)[0]:
            self._change(ASKED, *_root(node.func))
        if called not in DECLARING:
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            self._take(LOOKED if called in LOOKING else PASSED, arguments)
        self.generic_visit(node)

    def _take(self, kind: str, nodes: Iterable[ast.AST]) -> None:
        for name, attribute in self._inside(nodes):
            self._change(kind, name, attribute)

    def _inside(self, nodes: Iterable[ast.AST]) -> list[Reference]:
        """Return every name in some pieces that is the module's, a lambda's included: it may be called."""
        inner = _Visitor()
        inner.locals = self.locals
        for node in nodes:
            inner._plain(node)
        return sorted(inner.found.reads)

    def _plain(self, node: ast.AST) -> None:
        """Read the names of a piece and nothing else; results of calls in it are new things."""
        if isinstance(node, ast.Call):
            for part in (node.func, *node.args, *(keyword.value for keyword in node.keywords)):
                self._plain(part)
        elif isinstance(node, Function | Comprehension):
            self.visit(node)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            self._read(node.value.id, node.attr)
        elif isinstance(node, ast.Name):
            self._read(node.id, "")
        else:
            for child in ast.iter_child_nodes(node):
                self._plain(child)

    def visit_Expr(self, node: ast.Expr) -> None:
        self.found.is_bare |= not self.is_deferred and not isinstance(node.value, ast.Constant)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.found.is_bare |= not self.is_deferred
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.found.is_bare |= not self.is_deferred
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        self._take(LOOKED, [node.iter])
        self.generic_visit(node)

    visit_AsyncFor = visit_comprehension = visit_For  # noqa: N815 - as ast calls them

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._change(STORED, *_root(node.target))
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.found.imports.append(node)

    visit_ImportFrom = visit_Import  # noqa: N815 - as ast calls them

    # -- scopes -------------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._decorate(node)
        annotations = [argument.annotation for argument in _arguments(node.args)]
        self._visit_all([*node.args.defaults, *node.args.kw_defaults, *annotations, node.returns])
        self._defer(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - as ast calls them

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all([*node.args.defaults, *node.args.kw_defaults])
        self._defer(node, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.found.calls |= not self.is_deferred and bool(node.keywords)  # A metaclass.
        self._decorate(node)
        self.generic_visit(node)

    def _decorate(self, node: Definition) -> None:
        for decorator in node.decorator_list:
            call = decorator.func if isinstance(decorator, ast.Call) else decorator
            self.found.calls |= not self.is_deferred and getattr(call, "id", "") != DECORATOR
            if isinstance(decorator, ast.Attribute):  # @REGISTRY.register
                self._change(ASKED, *_root(decorator))

    def _defer(self, node: Function, body: list[Any]) -> None:
        own = {argument.arg for argument in _arguments(node.args)} | set(bound(body))
        declared = [one for one in _inside_scope(body) if isinstance(one, ast.Global | ast.Nonlocal)]
        own -= {name for one in declared for name in one.names}
        before, self.is_deferred = self.is_deferred, True
        self.locals.append(frozenset(own))
        self._visit_all(body)
        self.locals.pop()
        self.is_deferred = before

    def _comprehension(self, node: Any) -> None:
        self.visit(node.generators[0].iter)  # The first one is looked up outside.
        called = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
        if not all(isinstance(one, ast.Name) and one.id in LOOKING for one in called):
            self._take(PASSED, [part.iter for part in node.generators])
        self.locals.append(frozenset(name for part in node.generators for name in bound([part.target])))
        self.generic_visit(node)
        self.locals.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815 - as ast calls them

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)


def _arguments(node: ast.arguments) -> list[ast.arg]:
    several = [argument for argument in (node.vararg, node.kwarg) if argument]
    return [*node.posonlyargs, *node.args, *node.kwonlyargs, *several]


def _inside_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield every node of a scope, without those of scopes inside it."""
    for node in nodes:
        yield node
        if not isinstance(node, Definition | ast.Lambda):
            yield from _inside_scope(ast.iter_child_nodes(node))
