"""Effect of one instruction on the abstract stack and local variables, as far as followed values are concerned."""

from __future__ import annotations

import dis
from collections.abc import Callable
from dataclasses import dataclass, field

from cutaway.graph.control_flow.symbolic import (
    UNKNOWN,
    Apply,
    Constant,
    Escape,
    Expression,
    Opaque,
    Several,
    apply,
    is_followed,
    merge,
)

ALWAYS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE", "JUMP"})
"""Jumps without a condition."""
# Of several Python versions: PRECALL is in 3.11 only, KW_NAMES up to 3.12, TO_BOOL from 3.13.
_NEUTRAL = frozenset(
    [*ALWAYS, "NOP", "RESUME", "CACHE", "PRECALL", "KW_NAMES", "EXTENDED_ARG", "COPY_FREE_VARS", "MAKE_CELL", "TO_BOOL"]
)
_ONLY_POP = ("STORE_", "DELETE_", "POP_", "RETURN_", "RAISE", "RERAISE", "LIST_", "SET_", "MAP_", "DICT_", "END_")
_NULL = Opaque("NULL")


@dataclass(frozen=True, slots=True)
class Operand:
    """An abstract value: its expression over the followed values, and the instruction that pushed it."""

    expression: Expression
    origin: int


@dataclass(slots=True)
class State:
    """The known part of the stack, from the bottom, and the local variables."""

    stack: list[Operand] = field(default_factory=list)
    names: dict[str, Operand] = field(default_factory=dict)

    def pop(self) -> Operand:
        return self.stack.pop() if self.stack else NOTHING

    def push(self, expression: Expression, origin: int) -> None:
        self.stack.append(Operand(expression, origin))

    def reach(self, depth: int) -> None:
        """Extend the stack to at least this depth with unknown values from before the walk."""
        if len(self.stack) < depth:
            self.stack[:0] = [NOTHING] * (depth - len(self.stack))

    def copy(self) -> State:
        return State(list(self.stack), dict(self.names))

    def rewrite(self, change: Callable[[Expression], Expression]) -> None:
        """Change all expressions that depend on followed values."""
        for i, operand in enumerate(self.stack):
            if operand.expression.escapes:
                self.stack[i] = Operand(change(operand.expression), operand.origin)
        for name, operand in self.names.items():
            if operand.expression.escapes:
                self.names[name] = Operand(change(operand.expression), operand.origin)

    def depends_on(self, offset: int) -> bool:
        """Whether anything depends on the value from an instruction."""
        return any(offset in operand.expression.escapes for operand in self.stack) or any(
            offset in operand.expression.escapes for operand in self.names.values()
        )

    def join(self, other: State) -> bool:
        """Merge the state of another path to the same place; returns whether anything changed."""
        # Aligned at the top: a walk that begins in the middle of the code does not know the bottom of the stack.
        depth = min(len(self.stack), len(other.stack))
        top, other_top = self.stack[len(self.stack) - depth :], other.stack[len(other.stack) - depth :]
        stack = [merge_operands(a, b) for a, b in zip(top, other_top, strict=True)]
        names = dict(self.names)
        for name, operand in other.names.items():
            names[name] = merge_operands(names[name], operand) if name in names else operand
        changed = stack != self.stack or names != self.names
        self.stack, self.names = stack, names
        return changed


NOTHING = Operand(UNKNOWN, -1)


def merge_operands(a: Operand, b: Operand) -> Operand:
    if a == b:
        return a
    return Operand(merge(a.expression, b.expression), a.origin if a.origin == b.origin else -1)


def step(instruction: dis.Instruction, state: State) -> None:
    """Run one instruction that does not jump."""
    known = _STEPS.get(instruction.opname)
    if known is not None:
        known(instruction, state)
    elif instruction.opname not in _NEUTRAL:
        effect = dis.stack_effect(instruction.opcode, instruction.arg)
        adjust(state, effect, instruction.offset)
        if effect <= 0 and leaves_a_result(instruction) and state.stack:
            state.stack[-1] = Operand(UNKNOWN, instruction.offset)


def names_read(instruction: dis.Instruction) -> tuple[str, ...]:
    """The local variables that an instruction reads."""
    name = instruction.opname
    if name == "STORE_FAST_LOAD_FAST":
        return (instruction.argval[1],)
    if _STEPS.get(name) is not _load:
        return ()
    return instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)


def leaves_a_result(instruction: dis.Instruction) -> bool:
    """Whether the instruction pushes its result on top of the stack."""
    return not instruction.opname.startswith(_ONLY_POP)


def adjust(state: State, effect: int, offset: int) -> None:
    for _ in range(-effect):
        state.pop()
    for _ in range(effect):
        state.push(UNKNOWN, offset)


def callee_of(state: State, instruction: dis.Instruction) -> str:
    n = (instruction.arg or 0) + 2 + (instruction.opname == "CALL_KW")
    state.reach(n)
    # The callable and `self` or NULL; their order differs between Python versions.
    for operand in (state.stack[-n], state.stack[-n + 1]):
        if type(operand.expression) is Opaque and operand.expression is not _NULL and operand.expression.name:
            return operand.expression.name
    return ""


def _load_constant(instruction: dis.Instruction, state: State) -> None:
    state.push(Constant(instruction.argval), instruction.offset)


def _load(instruction: dis.Instruction, state: State) -> None:
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    for name in names:
        operand = state.names.get(name)
        # At module level, a plain name may be a builtin.
        unknown = Opaque(name) if instruction.opname == "LOAD_NAME" else UNKNOWN
        state.push(operand.expression if operand is not None else unknown, instruction.offset)


def _store(instruction: dis.Instruction, state: State) -> None:
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    for name in names:
        state.names[name] = state.pop()


def _store_and_load(instruction: dis.Instruction, state: State) -> None:
    stored, loaded = instruction.argval
    state.names[stored] = state.pop()
    operand = state.names.get(loaded, NOTHING)
    state.push(operand.expression, instruction.offset)


def _delete(instruction: dis.Instruction, state: State) -> None:
    state.names.pop(instruction.argval, None)


def _load_global(instruction: dis.Instruction, state: State) -> None:
    # Since 3.11, the lowest bit of the argument says that a NULL is pushed for the call that follows.
    name = Opaque(instruction.argval)
    for expression in (_NULL, name) if (instruction.arg or 0) & 1 else (name,):
        state.push(expression, instruction.offset)


def _push_null(instruction: dis.Instruction, state: State) -> None:
    state.push(_NULL, instruction.offset)


def _load_attribute(instruction: dis.Instruction, state: State) -> None:
    of = state.pop().expression
    is_method = instruction.opname == "LOAD_METHOD" or "NULL|self" in instruction.argrepr
    prefix = f"{of.name}." if type(of) is Opaque and of.name == "math" else ""
    found = Opaque(f"{prefix}{instruction.argval}")
    if not is_method:
        # `array.shape` does not depend on the values.
        state.push(found, instruction.offset)
        return
    state.push(found, instruction.offset)
    state.push(_NULL if prefix else of, instruction.offset)


def _call(instruction: dis.Instruction, state: State) -> None:
    n = instruction.arg or 0
    callee = callee_of(state, instruction)
    if instruction.opname == "CALL_KW":
        state.pop()
    arguments = tuple([state.pop().expression for _ in range(n)][::-1])
    bound = [state.pop().expression, state.pop().expression]
    result: Expression = UNKNOWN
    if is_followed(callee) and any(a.escapes for a in arguments) and instruction.opname == "CALL":
        result = apply(callee, *arguments)
    else:
        # The result of a method of a followed value (`array.any()`, `number.is_integer()`) depends on it.
        own = frozenset().union(*(e.escapes for e in bound))
        result = Opaque("", own) if own else UNKNOWN
    state.push(result, instruction.offset)


def _binary(name: Callable[[dis.Instruction], str]) -> Callable[[dis.Instruction, State], None]:
    def step(instruction: dis.Instruction, state: State) -> None:
        right, left = state.pop().expression, state.pop().expression
        state.push(_result(name(instruction), left, right), instruction.offset)

    return step


def _unary(name: str) -> Callable[[dis.Instruction, State], None]:
    def step(instruction: dis.Instruction, state: State) -> None:
        state.push(_result(name, state.pop().expression), instruction.offset)

    return step


def _result(name: str, *arguments: Expression) -> Expression:
    if name == "[]":
        # An element that a followed number selects from a container is not followed.
        return apply(name, *arguments) if arguments[0].escapes else UNKNOWN
    if name in ("is", "is not") and arguments[1] not in (Constant(True), Constant(False)):
        return UNKNOWN  # `n is None` does not depend on the value
    return apply(name, *arguments) if any(a.escapes for a in arguments) else UNKNOWN


def _copy(instruction: dis.Instruction, state: State) -> None:
    state.reach(instruction.arg or 1)
    state.stack.append(state.stack[-(instruction.arg or 1)])


def _swap(instruction: dis.Instruction, state: State) -> None:
    n = instruction.arg or 1
    state.reach(n)
    state.stack[-1], state.stack[-n] = state.stack[-n], state.stack[-1]


def _build(instruction: dis.Instruction, state: State) -> None:
    items = tuple([state.pop().expression for _ in range(instruction.arg or 0)][::-1])
    state.push(apply("tuple", *items) if any(i.escapes for i in items) else UNKNOWN, instruction.offset)


def _unpack(instruction: dis.Instruction, state: State) -> None:
    whole = state.pop().expression
    for i in reversed(range(instruction.arg or 0)):
        if type(whole) is Apply and whole.name == "tuple" and i < len(whole.arguments):
            state.push(whole.arguments[i], instruction.offset)
        else:
            state.push(_result("[]", whole, Constant(i)), instruction.offset)


def _iterate_list(instruction: dis.Instruction, state: State) -> None:
    """Only a list that torch returned is followed into a loop; numbers from a `range` are not the value."""
    over = state.pop().expression
    state.push(Several(over.escapes) if type(over) is Escape else UNKNOWN, instruction.offset)


_STEPS: dict[str, Callable[[dis.Instruction, State], None]] = {
    "LOAD_CONST": _load_constant,
    **dict.fromkeys(
        ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "LOAD_FAST_LOAD_FAST", "LOAD_DEREF", "LOAD_NAME"), _load
    ),
    **dict.fromkeys(("STORE_FAST", "STORE_FAST_STORE_FAST", "STORE_DEREF", "STORE_NAME"), _store),
    "STORE_FAST_LOAD_FAST": _store_and_load,
    **dict.fromkeys(("DELETE_FAST", "DELETE_NAME"), _delete),
    "LOAD_GLOBAL": _load_global,
    "PUSH_NULL": _push_null,
    **dict.fromkeys(("LOAD_METHOD", "LOAD_ATTR"), _load_attribute),
    **dict.fromkeys(("CALL", "CALL_KW"), _call),
    "BINARY_OP": _binary(lambda i: i.argrepr.rstrip("=") if i.argrepr not in ("==", "<=", ">=") else i.argrepr),
    "COMPARE_OP": _binary(lambda i: str(i.argval)),
    "IS_OP": _binary(lambda i: "is not" if i.arg else "is"),
    "CONTAINS_OP": _binary(lambda i: "not in" if i.arg else "in"),
    "BINARY_SUBSCR": _binary(lambda i: "[]"),
    "UNARY_NOT": _unary("not"),
    "UNARY_NEGATIVE": _unary("-"),
    "UNARY_POSITIVE": _unary("+"),
    "UNARY_INVERT": _unary("~"),
    "COPY": _copy,
    "SWAP": _swap,
    **dict.fromkeys(("BUILD_TUPLE", "BUILD_LIST"), _build),
    "UNPACK_SEQUENCE": _unpack,
    "GET_ITER": _iterate_list,
}
