"""Data-flow analysis of a code object: the jumps that a value decides.

Bytecode is always available, source is not. A value is followed over the stack and through local variables, through
comparisons, arithmetic, `bool`, `abs` and the like, up to the jumps that test it. It is not followed into attributes,
containers of unknown content or other functions.
"""

from __future__ import annotations

import dis
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from types import CodeType

from cutaway.graph.control_flow.stack import (
    ALWAYS,
    NOTHING,
    Operand,
    State,
    adjust,
    callee_of,
    leaves_a_result,
    merge_operands,
    names_read,
    step,
)
from cutaway.graph.control_flow.symbolic import (
    CONVERSIONS,
    UNKNOWN,
    Escape,
    Expression,
    Opaque,
    Several,
    apply,
    earlier,
    evaluate,
    forget,
    merge,
)

_END = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
_AHEAD = 8
"""How many tests a walk continues after nothing depends on its value: the rest of `n > 3 and x.any()`."""
_CACHE = dis.opmap.get("CACHE", 0)
_ASKED_FROM_WITHIN = frozenset({"bool", "int", "float", "complex", "index", "len"})
"""Conversions that other functions call internally: the result of `range(t)` is not the result of `__index__`."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A jump that a followed value decides."""

    jump: int
    operand: Operand


@dataclass(frozen=True, slots=True)
class _Block:
    """A basic block: only the last instruction jumps."""

    first: int
    last: int
    jump: int | None = None
    """The block that the last instruction jumps to, by its first instruction."""
    fall: int | None = None
    """The next block; None if the last instruction never falls through."""


class CodeAnalysis:
    """The jumps of a code object that values from torch decide.

    Args:
        escapes: offset → name of the torch function that returned a Python value there.
        tensors: offsets of the instructions that returned tensors, whose results are no Python values.
    """

    def __init__(self, code: CodeType, escapes: Mapping[int, str], tensors: frozenset[int] = frozenset()) -> None:
        self.instructions = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
        self.escapes, self.tensors = escapes, tensors
        self._index = {instruction.offset: i for i, instruction in enumerate(self.instructions)}
        self._blocks = self._cut()
        self._starts = sorted(self._blocks)
        self._decisions: dict[int, tuple[Decision, ...]] = {}
        self._tested: dict[int, dict[int, Operand]] = {}
        self._returned: dict[int, Expression] = {}
        self._before: dict[int, State] = {}
        self._reached: dict[tuple[int, frozenset[tuple[int, bool]]], tuple[set[int], set[int]]] = {}
        self._live: dict[str, set[int]] = {}
        self._above: dict[int, list[int]] = {}
        self._reads: dict[str, set[int]] = {}
        self._enter()

    def decisions(self, offset: int) -> tuple[Decision, ...]:
        """The jumps that the value from `offset` can decide, in the order of the code."""
        if offset not in self._decisions:
            self._follow(offset)
        return self._decisions[offset]

    def tested(self, offset: int) -> Mapping[int, Operand]:
        """The jumps reachable from `offset`, not too far after its last use, and what each of them tests."""
        self.decisions(offset)
        return self._tested[offset]

    def returned(self, offset: int) -> Expression:
        """What the code returns, in terms of the value from `offset`."""
        self.decisions(offset)
        return self._returned.get(offset, UNKNOWN)

    def is_run(self, offset: int) -> bool:
        """Whether one instruction reads several values and only the last determines the result."""
        index = self._index.get(offset)
        if index is None:
            return False
        name = self.instructions[index].opname
        if not name.startswith("CALL"):
            return name == "CONTAINS_OP"
        return callee_of(self._before[offset].copy(), self.instructions[index]) in ("all", "any")

    def truths(self, offset: int, values: Mapping[int, object]) -> dict[int, bool]:
        """The results of the tests after `offset`, as far as these values determine them."""
        found = {}
        for jump, operand in self.tested(offset).items():
            truth = evaluate(operand.expression, values)
            if truth is not UNKNOWN:
                try:
                    found[jump] = bool(truth)
                except (TypeError, ValueError, RuntimeError):  # an array of several elements
                    continue
        return found

    def reached(self, offset: int, truths: Mapping[int, bool]) -> tuple[set[int], set[int]]:
        """The jumps that may be reached after `offset` before it runs again, and those that are always reached."""
        key = offset, frozenset(truths.items())
        if key not in self._reached:
            possible, _ = self._walk(offset, truths, avoid=None)
            wanted = {decision.jump for decision in self.decisions(offset)} & possible
            certain = {jump for jump in wanted if jump == offset or not self._walk(offset, truths, avoid=jump)[1]}
            self._reached[key] = possible, certain
        return self._reached[key]

    # blocks

    def _cut(self) -> dict[int, _Block]:
        jumps = {i: self._index[ins.argval] for i, ins in enumerate(self.instructions) if _jumps(ins)}
        leaders = {0, *jumps.values(), *(i + 1 for i in jumps)}
        leaders |= {i + 1 for i, ins in enumerate(self.instructions) if ins.opname in _END}
        starts = sorted(i for i in leaders if i < len(self.instructions))
        blocks = {}
        for start, behind in zip(starts, [*starts[1:], len(self.instructions)], strict=True):
            last = behind - 1
            name = self.instructions[last].opname
            goes_on = name not in _END and name not in ALWAYS and behind < len(self.instructions)
            blocks[start] = _Block(start, last, jumps.get(last), behind if goes_on else None)
        return blocks

    def _block_of(self, index: int) -> _Block:
        return self._blocks[self._starts[bisect_right(self._starts, index) - 1]]

    def _walk(self, offset: int, truths: Mapping[int, bool], avoid: int | None) -> tuple[set[int], bool]:
        """The jumps on all paths from `offset`, and whether a path ends without reaching `avoid`."""
        start = self._index[offset]
        home = self._block_of(start)
        is_inside = start < home.last or not _is_test(self.instructions[start])
        met: set[int] = set()
        seen: set[int] = set()
        todo = [home]
        ends = False
        while todo:
            block = todo.pop()
            last = self.instructions[block.last]
            if last.offset == avoid and (block is not home or is_inside):
                continue
            if _is_test(last):
                met.add(last.offset)
            ways = [way for way in (block.jump, block.fall) if way is not None]
            truth = truths.get(last.offset)
            if truth is not None and _is_test(last) and len(ways) == 2:
                ways = [ways[0] if truth is ("IF_TRUE" in last.opname) else ways[1]]
            ends = ends or not ways
            for way in ways:
                if way == home.first and start >= home.first:
                    ends = True
                elif way not in seen:
                    seen.add(way)
                    todo.append(self._blocks[way])
        return met, ends

    # data flow

    def _enter(self) -> None:
        """Walk from the start of the code to find the abstract state before each escaping instruction."""

        def visit(instruction: dis.Instruction, state: State) -> None:
            if instruction.offset in self.escapes:
                before = self._before.get(instruction.offset)
                if before is None:
                    self._before[instruction.offset] = state.copy()
                else:
                    before.join(state)

        if self.instructions:
            self._run(0, State(), visit)
            for offset in self.escapes.keys() - self._before.keys():  # inside an `except`
                block = self._block_of(self._index[offset]) if offset in self._index else None
                state = State()
                for i in range(block.first, self._index[offset]) if block is not None else ():
                    self._step(i, state)
                self._before[offset] = state

    def _follow(self, offset: int) -> None:
        """Walk from an instruction until it runs again, and record what is tested."""
        tested = self._tested[offset] = {}
        if offset not in self._index:
            self._decisions[offset] = ()
            return

        def visit(instruction: dis.Instruction, state: State) -> None:
            operand = state.stack[-1] if state.stack else NOTHING
            if _is_test(instruction):
                if instruction.offset in self.escapes:
                    operand = Operand(Escape(instruction.offset), operand.origin)
                known = tested.get(instruction.offset)
                tested[instruction.offset] = operand if known is None else merge_operands(known, operand)
            elif instruction.opname == "RETURN_VALUE" and offset in operand.expression.escapes:
                known_ = self._returned.get(offset, operand.expression)
                self._returned[offset] = merge(known_, operand.expression)

        state = self._before[offset].copy()
        state.rewrite(earlier)
        self._run(self._index[offset], state, visit, followed=offset)
        self._decisions[offset] = tuple(
            Decision(jump, operand) for jump, operand in sorted(tested.items()) if offset in operand.expression.escapes
        )

    def _run(
        self,
        start: int,
        state: State,
        visit: Callable[[dis.Instruction, State], None],
        followed: int | None = None,
    ) -> None:
        """Walk all paths from an instruction until the states no longer change (fixed point).

        A followed value is dropped when its instruction would run again, and soon after nothing depends on it.
        """
        home = self._block_of(start)
        states: dict[int, tuple[State, int]] = {}
        todo = [(start, _AHEAD)]
        pending: dict[int, State] = {start: state}
        while todo:
            # In the order of the code, so that a block is mostly walked after all blocks that lead to it.
            index, ahead = heappop(todo)
            if index not in pending:
                continue
            state = pending.pop(index)
            block = home if index == start else self._blocks[index]
            for i in range(index, block.last + 1):
                instruction = self.instructions[i]
                visit(instruction, state)
                if not _jumps(instruction):
                    self._step(i, state)
            for way, after in self._leave(block, state):
                left = ahead
                if followed is not None:
                    left = _AHEAD if after.depends_on(followed) else ahead - 1
                    if way == home.first or not left:
                        continue
                known = states.get(way)
                if known is None:
                    states[way] = after, left
                elif not known[0].join(after) and left <= known[1]:
                    continue
                else:
                    states[way] = known[0], max(left, known[1])
                pending[way] = states[way][0].copy()
                heappush(todo, (way, states[way][1]))

    def _leave(self, block: _Block, state: State) -> list[tuple[int, State]]:
        """The successor blocks, each with the state at its start."""
        last = self.instructions[block.last]
        ways = []
        for way, is_taken in ((block.jump, True), (block.fall, False)):
            if way is None:
                continue
            after = state.copy()
            if not _jumps(last):
                pass
            elif last.opname == "FOR_ITER":
                self._iterate(last, after, is_taken)
            elif last.opname not in ALWAYS:
                adjust(after, dis.stack_effect(last.opcode, last.arg, jump=is_taken), last.offset)
            ways.append((way, after))
        # A dead variable would make the followed value seem alive, and the walk would not end soon after its last use.
        for way, after in ways:
            after.names = {name: operand for name, operand in after.names.items() if way in self._blocks_before(name)}
        return ways

    def _blocks_before(self, name: str) -> set[int]:
        """The blocks at whose start a variable is live."""
        if name not in self._live:
            if not self._above:
                for block in self._blocks.values():
                    for way in (block.jump, block.fall):
                        if way is not None:
                            self._above.setdefault(way, []).append(block.first)
                for i, instruction in enumerate(self.instructions):
                    for read in names_read(instruction):
                        self._reads.setdefault(read, set()).add(self._block_of(i).first)
            live = self._live[name] = set(self._reads.get(name, ()))
            todo = list(live)
            while todo:
                for above in self._above.get(todo.pop(), ()):
                    if above not in live:
                        live.add(above)
                        todo.append(above)
        return self._live[name]

    def _iterate(self, instruction: dis.Instruction, state: State, is_over: bool) -> None:
        if is_over:
            adjust(state, dis.stack_effect(instruction.opcode, instruction.arg, jump=True), instruction.offset)
            return
        over = state.stack[-1].expression if state.stack else UNKNOWN
        state.push(Opaque("", over.escapes) if type(over) is Several else UNKNOWN, instruction.offset)

    def _step(self, index: int, state: State) -> None:
        instruction = self.instructions[index]
        offset = instruction.offset
        own = None
        if offset in self.escapes:
            own = self._own_result(instruction, state)
            state.rewrite(lambda expression: forget(expression, offset))
        step(instruction, state)
        if own is not None and state.stack:
            # TO_BOOL (Python 3.13) has no source range: it keeps that of its operand.
            origin = state.stack[-1].origin if instruction.opname == "TO_BOOL" else offset
            state.stack[-1] = Operand(own, origin)
        elif offset in self.tensors and state.stack and leaves_a_result(instruction):
            state.stack[-1] = Operand(UNKNOWN, offset)

    def _own_result(self, instruction: dis.Instruction, state: State) -> Expression:
        """What an instruction leaves on the stack, in terms of the value that torch returned while it ran."""
        name, value = instruction.opname, Escape(instruction.offset)
        if name == "UNARY_NOT" or (name == "CONTAINS_OP" and instruction.arg):
            return apply("not", value)
        if name in ("TO_BOOL", "COMPARE_OP", "CONTAINS_OP"):
            return value
        if not name.startswith("CALL"):
            return UNKNOWN
        callee = callee_of(state, instruction)
        function = self.escapes[instruction.offset].strip("_")
        if callee in ("all", "any") or callee.rpartition(".")[2] == function:
            return value
        if callee.startswith("math."):
            return apply(callee, value)
        return UNKNOWN if function in _ASKED_FROM_WITHIN or callee in CONVERSIONS else value


def start_of(bytecode: bytes, offset: int) -> int:
    """The offset of the instruction that a frame executes; during calls, `f_lasti` points to an inline cache."""
    while offset > 0 and bytecode[offset] == _CACHE:
        offset -= 2
    return offset


def _jumps(instruction: dis.Instruction) -> bool:
    return instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs


def _is_test(instruction: dis.Instruction) -> bool:
    """Whether an instruction jumps depending on the truth of the top of the stack."""
    name = instruction.opname
    return "JUMP" in name and ("IF_TRUE" in name or "IF_FALSE" in name)
