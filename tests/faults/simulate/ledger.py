"""What the server should hold in a simulation, followed command by command, and what it does otherwise.

The ledger is a second, plain account of a queue: messages with their content and attempts, watermarks, pauses,
failures. It changes by what was carried out, and each reply must agree with it: a claim gives the first messages of a
group, whole, none of them before its time or before a missing number, and nothing of what is paused or backs off; what
becomes of a late, a repeated or a failed message follows from the policy. `asks` are the questions whose answers show
that a group will be looked at in time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import orjson

from sequencer.store.record import STAMP_DIGITS

from ...support.arrivals import acknowledgements, arrivals
from ...support.model.record import Cut
from .books import Account, Ask, Book, Row, arrived

LATE = {"refuse": "<", "drop": "~", "dead_letter": "x"}
"""What an append says of a late message, by the policy."""


def marks_in(reply: bytes, count: int) -> list[str]:
    """What an append says of each of its messages: a letter and a stamp. Of many that it stored, only the first's."""
    text, size = reply.decode(), 1 + STAMP_DIGITS
    if text[0] == "+" and len(text) == size:
        return [f"+{int(text[1:]) + i:0{STAMP_DIGITS}d}" for i in range(count)]
    return [text[at : at + size] for at in range(0, len(text), size)]


class Ledger(Account):
    """The account of all shards. `problems` says where a reply did not agree with it."""

    def saw(self, name: str, args: list[str], reply: Any) -> None:
        """A script was carried out with these arguments, the time among them."""
        look: Callable[[list[str], Any], None] | None = getattr(self, f"_{name}", None)
        if look is not None:
            look(args, reply)

    # -- what comes in ----------------------------------------------------------------------------------------

    def _append(self, args: list[str], reply: bytes) -> None:
        prefix, (mode, is_dry_run, words, contents) = args[0], arrivals(args[1:])
        now_us = int(args[-2])
        marks = marks_in(reply, len(words))
        if is_dry_run:
            return
        is_undone = mode == "none" and any(mark[0] in "!#<" for mark in marks)
        for word, mark, content in zip(words, marks, contents, strict=True):
            key = prefix, str(word[0])
            book, row = self.books[key], arrived(word, mark, content, now_us)
            self._check_fate(book, word, mark[0], row)
            if not is_undone:
                if mark[0] == "=" and str(word[1]) not in book.known:
                    self.wrong(f"loss: {word[0]}/{word[1]} never came, and its append said that it is known")
                book.known.add(str(word[1]))
            if mark[0] == "x" and not is_undone:
                self.dead[prefix, row.member[:STAMP_DIGITS] + key[1] + "\n" + str(word[1])] = row
                self.counts[prefix, "dead"] += 1
            elif mark[0] == "~" and not is_undone:
                self.counts[prefix, "dropped"] += 1
            elif mark[0] == "+" and not is_undone:
                book.rows[str(word[1])] = row
                self.counts[prefix, "appended"] += 1
                before, at_us = self.asks.get(key), max(now_us, self.opens_us(row))
                self.asks[key] = Ask(min(at_us, before.at_us) if before and not before.is_lease else at_us, False)

    def _check_fate(self, book: Book, word: list[Any], fate: str, row: Row) -> None:
        """Whether this is what becomes of such a message, by the policy and what is pending."""
        name, old = f"{word[0]}/{word[1]}", book.rows.get(str(word[1]))
        if old is not None:
            is_same = row.content == old.content and (word[2] == "" or row.score == old.score)
            if fate != ("=" if is_same else "!"):
                self.wrong(
                    f"{name} is pending with {'this' if is_same else 'other'} content, and its append said {fate}"
                )
            return
        if fate == "!":
            self.wrong(f"{name} is not pending, and its append was called a conflict")
        is_late = not self.policy.sequence and self.policy.on_late != "handle" and row.score < book.mark
        if (fate in LATE.values()) != is_late and fate != "=":
            self.wrong(f"{name} with score {row.score} came to watermark {book.mark}, and its append said {fate}")
        elif is_late and fate != "=" and fate != LATE[self.policy.on_late]:
            self.wrong(f"{name} was late, and its append said {fate} where the policy is {self.policy.on_late}")

    def _redrive(self, args: list[str], reply: bytes) -> None:
        for letter, mark in zip(orjson.loads(args[2])[::2], reply.decode(), strict=True):
            if mark == "+":
                row = self.dead.pop((args[0], letter), None)
                group, _, message_id = letter[STAMP_DIGITS:].partition("\n")
                if row is None:
                    self.wrong(f"{group}/{message_id} was redriven, and was no dead letter")
                    continue
                back = Row(row.member, row.score, 0, row.content, 0, True, row.ledger)
                self.books[args[0], group].rows[message_id] = back
                self.write(group, back, "", args[3], by_person=True)
                self.counts[args[0], "redriven"] += 1
                self.redriven.add((group, row.member))
                self.asks[args[0], group] = Ask(self.now_us, False)

    def _pause(self, args: list[str], reply: int) -> None:
        if args[1]:
            self.books[args[0], args[1]].is_paused = args[2] == "1"
        elif args[2] == "1":
            self.paused.add(args[0])
        else:
            self.paused.discard(args[0])

    # -- leases -----------------------------------------------------------------------------------------------

    def _claim(self, args: list[str], reply: list[Any]) -> None:
        prefix, now_us, at = args[0], int(args[-2]), 0
        if len(reply) == 4 and isinstance(reply[2], int):
            return self._check_idle(prefix, now_us)
        entries: list[list[Any]] = orjson.loads(reply[2]) or []
        suspects, has_slots = [entry for entry in entries if entry[1]], args[10] != ""
        has_company = suspects and len(entries) > 1 and not has_slots
        if has_company or any(len(entry[4]) > int(entry[5]) for entry in suspects):
            self.wrong(f"group {suspects[0][0]} was claimed with another, or more than its head, after a lease expired")
        charged = [entry for entry in suspects if self.books[prefix, str(entry[0])].was_alone]
        if has_slots and (
            len(suspects) > int(args[10].lstrip("-")) or (charged and (len(suspects) > 1 or args[10].startswith("-")))
        ):
            self.wrong(f"{len(suspects)} suspects, {len(charged)} of them charged, for a claim with room {args[10]}")
        for entry in entries:
            key = prefix, str(entry[0])
            book, size = self.books[key], len(entry[4]) // int(entry[5])
            if prefix in self.paused or book.is_paused:
                self.wrong(f"group {key[1]} was claimed while it was paused")
            if max(now_us, self.newest_us) < book.blocked_us:
                self.wrong(
                    f"group {key[1]} was claimed at {now_us}, while a failure holds it until {book.blocked_us:.0f}"
                )
            self._check_mark(key[1], book, str(entry[2]))
            self._check_claimed(key[1], book, entry, reply[3][at : at + size], now_us)
            at += size
            is_alone = entry in suspects if has_slots else len(entries) == 1 and args[6] != "1"
            book.was_alone, book.blocked_us = is_alone, -math.inf
            book.leased_until_us = now_us + int(args[2]) * 1000
            self.asks[key] = Ask(now_us + int(args[2]) * 1000, True)
        return None

    def _check_idle(self, prefix: str, now_us: int) -> None:
        """Nothing was due: no group has a head that may be handled, and that nothing holds.

        After the clock went back nothing is said until it is where it was: what waits, waits so much longer.
        """
        if now_us < self.newest_us:
            return
        for (shard, group), book in self.books.items():
            held_us = max(book.blocked_us, book.leased_until_us)
            if shard != prefix or not book.rows or prefix in self.paused or book.is_paused or now_us < held_us:
                continue
            head = book.pending()[0]
            if now_us >= max(self.opens_us(head), self.over_us(head, max(book.mark, 0.0))):
                self.wrong(f"a claim at {now_us} found nothing, though {group}/{head.member[STAMP_DIGITS:]} was due")

    def _check_mark(self, group: str, book: Book, text: str) -> None:
        number = text.lstrip("#").partition(" ")[0] if self.policy.sequence else text
        mark = float(number or "-inf")
        if mark != book.mark:
            self.wrong(f"group {group} was claimed with the watermark {text!r}; it is {book.mark}")

    def _check_claimed(self, group: str, book: Book, entry: list[Any], records: list[bytes], now_us: int) -> None:
        """The first messages of the group, as they were stored, and all due."""
        pending, mark, stride = book.pending(), max(book.mark, 0.0), int(entry[5])
        members = entry[4][::stride]
        scores = entry[4][1::2] if stride == 2 else [f"{member[:10]}.{member[10:STAMP_DIGITS]}" for member in members]
        for place, (member, score, record) in enumerate(zip(members, scores, records, strict=True)):
            name = f"{group}/{member[STAMP_DIGITS:]}"
            if place >= len(pending) or pending[place].member != member:
                should = pending[place].member if place < len(pending) else "nothing"
                return self.wrong(f"{name} ({member}) was claimed where {should} should have been")
            row = pending[place]
            row.attempts += place == 0 and bool(entry[1]) and book.was_alone
            if float(score) != row.score:
                self.wrong(f"{name} was claimed with score {score}; it was stored with {row.score}")
            self._check_record(name, row, record)
            if now_us < self.opens_us(row):
                self.wrong(f"{name} was claimed at {now_us}, and is due at {self.opens_us(row)}")
            if now_us < self.over_us(row, mark):
                self.wrong(f"{name} was claimed with number {row.score}, after {mark}: a gap that nobody skipped")
            mark = mark if row.redriven else max(mark, row.score)
        return None

    def _check_record(self, name: str, row: Row, record: bytes) -> None:
        cut = Cut.of(record.decode())
        if int(cut.attempts) != row.attempts:
            self.wrong(f"{name} was claimed as tried {cut.attempts} times; it was {row.attempts}")
            row.attempts = int(cut.attempts)
        if (cut.flag == "R") != row.redriven:
            self.wrong(
                f"{name} was claimed with the flag {cut.flag}, and was {'' if row.redriven else 'never '}redriven"
            )
        if cut.ledger != row.ledger:
            self.wrong(f"{name} was claimed with the ledger {cut.ledger!r}; it had {row.ledger!r}")
        if cut.envelope != row.content:
            self.wrong(f"{name} was claimed with other content than it was stored with")

    def _renew(self, args: list[str], reply: list[int]) -> None:
        for position, (group, _) in enumerate(orjson.loads(args[1]), 1):
            if position not in reply:
                until_us = self.now_us + int(args[2]) * 1000
                self.asks[args[0], group], self.books[args[0], group].leased_until_us = Ask(until_us, True), until_us

    # -- what goes --------------------------------------------------------------------------------------------

    def _ack(self, args: list[str], reply: list[int]) -> None:
        for position, group, token, release, _, members in acknowledgements(args[1]):
            if position in reply[1:]:
                continue
            book = self.books[args[0], group]
            if release == "1":
                book.leased_until_us = -math.inf
                self.asks.pop((args[0], group), None)
            claimed = self.steps.claimed.get((group, int(token)), [])
            for member in members:
                before = claimed[: claimed.index(member)] if member in claimed else []
                if any(self.row(args[0], group, one) for one in before):
                    self.wrong(f"{group}/{member[STAMP_DIGITS:]} was acknowledged, and one claimed before it was not")
                row = self.removed(args[0], group, member)
                if row is None:  # the same ack, carried out again
                    continue
                if self.policy.on_late in ("drop", "dead_letter") and not row.redriven and row.score < book.mark:
                    self.wrong(f"{group}/{member[STAMP_DIGITS:]} was handled, though it was late")
                book.mark = max(book.mark, row.score)
                self.counts[args[0], "handled"] += 1
                self.steps.acknowledged(group, member, int(token))

    def _save_step(self, args: list[str], reply: int) -> None:
        prefix, group, token, member, before, ledger, progressed = args[:7]
        name, row = f"{group}/{member[STAMP_DIGITS:]}", self.row(prefix, group, member)
        is_behind = bool(before and self.row(prefix, group, before))
        if reply == 0:
            return
        if reply != (wanted := -2 if is_behind else 1 if row else -1):
            self.wrong(f"a note of {name} was answered {reply}; it should be {wanted}")
        if reply == 1 and row and self.write(group, row, token, ledger) and progressed == "1":
            row.attempts = 0

    def _nack(self, args: list[str], reply: int) -> None:
        prefix, group, member, ending = args[0], args[1], args[3], args[6]
        book = self.books[prefix, group]
        row = book.rows.get(member[STAMP_DIGITS:])
        if reply in (0, -2) or row is None:
            return
        self.asks.pop((prefix, group), None)
        book.leased_until_us = -math.inf
        self.check_nack(f"{group}/{member[STAMP_DIGITS:]}", book, row, args)
        row.attempts = int(args[4] or row.attempts)
        self.write(group, row, args[2], args[13])
        if ending:
            self.steps.given_up(group, member, orjson.loads(args[7])["type"], ending)
        self.counts[prefix, "failed"] += args[9] != "1"
        if ending in ("dead", "drop"):
            self.removed(prefix, group, member)
            self.counts[prefix, "dead" if ending == "dead" else "dropped"] += 1
            if ending == "dead":
                letter = prefix, member[:STAMP_DIGITS] + group + "\n" + member[STAMP_DIGITS:]
                self.dead[letter], self.why[letter] = row, args[7]
            if self.policy.sequence:
                book.mark = max(book.mark, row.score)
        else:
            book.blocked_us = math.inf if ending == "park" else self.now_us + int(args[5]) * 1000

    # -- what an operator does --------------------------------------------------------------------------------

    def _resume(self, args: list[str], reply: list[Any]) -> None:
        prefix, ending = args[0], args[2]
        for (group, _, member, _, ledger, *_), status in zip(orjson.loads(args[1]), reply[0], strict=True):
            if status != b"resumed":
                continue
            book = self.books[prefix, group]
            book.blocked_us = -math.inf
            row = book.rows.get(member[STAMP_DIGITS:])
            if row is None or row.member != member:
                continue
            row.attempts = 0
            self.write(group, row, "", ledger, by_person=True)
            if ending:
                self.removed(prefix, group, member)
                if self.policy.sequence:
                    book.mark = max(book.mark, row.score)

    def _wake(self, args: list[str], reply: bytes) -> None:
        if reply == b"woken":
            self.books[args[0], args[1]].blocked_us = -math.inf

    def _skip_gap(self, args: list[str], reply: bytes) -> None:
        book = self.books[args[0], args[1]]
        row = book.rows.get(args[2][STAMP_DIGITS:])
        if reply == b"skipped" and row is not None:
            book.mark = max(book.mark, row.score - 1)
