/* Steps of a message, for spin: notes into the record, `once`, and what may happen around them.

   One group with two messages; each has two automatic steps and then a `once` step. Two consumers; a dead one is
   replaced at once. A consumer calls a step, notes its end and waits for the answer before the next one; the start of a
   `once` step is noted with the end of the step before it, and the call waits for that too. The acknowledgement of a
   message goes in front of the first note of the next one. A `once` step that was started under another lease is asked
   about: the group is parked, and a person who looks at the outside world answers "done" or "again".

   Each script is one atomic step. Between any two steps up to FAULTS faults may take effect: a consumer dies, a lease
   runs out while its holder lives, a request is lost, its reply is lost, a note is delivered at any later time, an
   acknowledgement is refused while the note behind it is not, a consumer gives its group back.

   Time is nondeterminism, as in lease.pml. A person answers only when no living consumer is about to call the step: the
   README says that nobody can know more. Left out: failures of steps, attempts, `check`, and what policies decide; the model
   in Python has those (tests/support/steps_model). "ghost": only for checks. */

#include "settings.pml"

#define BIT(m) (1 << (m))
#define AUTOS 2
#define BOTH 3

mtype = {DUE, LATER, PARKED};
mtype = {ARRIVES, UNANSWERED, LOST, DELAYED};
mtype = {STEP_OPEN, STARTED, DONE};
mtype = {TWICE, AHEAD, SETTLED, UNFINISHED};

/* What the server holds: the group, and the ledger in the record of each message. */
mtype schedule = DUE;
byte lease, clock;
byte pending = BOTH;        /* a set of messages */
byte serial[2], autos[2], starter[2];
mtype once[2];

/* What each consumer holds: the lease, the message in progress, and the ledgers as it knows them. */
byte token[2], at[2], unacked[2];
byte my_serial[4], my_autos[4], my_starter[4];
mtype my_once[4];
bool is_dirty[2];           /* the ledger of the message in progress is not noted yet */

/* A note that was sent and is executed later. */
byte late_token, late_at, late_serial, late_autos, late_starter;
mtype late_once;
bool late_is_there;

byte faults;                /* ghosts */
bool acted[2];              /* ghost: the `once` step of this message took effect */

mtype fate;                 /* within one atomic step */
byte answer, k;
#define REFUSED 0
#define WRITTEN 1
#define BEHIND 2

#define MINE(c) (2 * (c) + at[c])
#define HOLDS(c) (token[c] != 0)
#define IN_PROGRESS(c) (HOLDS(c) && at[c] < 2)
#define CALLS_ONCE(c, m) (IN_PROGRESS(c) && at[c] == (m) && my_once[MINE(c)] == STARTED && my_starter[MINE(c)] == token[c])
#define IS_UNKNOWN(c) (my_once[MINE(c)] == STARTED && my_starter[MINE(c)] != token[c] && !BROKEN(ONCE_AS_AUTOMATIC))
#define HEAD ((pending & 1) != 0 -> 0 : 1)

inline forget(c) {
    token[c] = 0; at[c] = 0; unacked[c] = 0; is_dirty[c] = false;
    d_step {
        do
        :: k < 2 -> my_serial[2*c+k] = 0; my_autos[2*c+k] = 0; my_starter[2*c+k] = 0; my_once[2*c+k] = 0; k++
        :: else -> break
        od;
        k = 0
    }
}

inline claim(c) {
    clock++; lease = clock; schedule = LATER;
    if
    :: faults < FAULTS -> faults++; SEEN(claim_unanswered)
    :: token[c] = clock; at[c] = HEAD; unacked[c] = 0; is_dirty[c] = false;
        d_step {
            do
            :: k < 2 ->
                my_serial[2*c+k] = serial[k]; my_autos[2*c+k] = autos[k]; my_starter[2*c+k] = starter[k];
                my_once[2*c+k] = once[k]; k++
            :: else -> break
            od;
            k = 0
        };
        printf("consumer %d claims message %d, token %d\n", c, at[c], token[c])
    fi
}

inline end_lease() {
    lease = 0; schedule = (pending != 0 -> DUE : 0)
}

inline ack(c) {   /* what was handled before the message in progress; refused alone: a script that the server had lost */
    if
    :: unacked[c] != 0 && lease == token[c] ->
        if
        :: faults < FAULTS -> faults++; SEEN(ack_refused_alone)
        :: printf("token %d acknowledges the set %d\n", token[c], unacked[c]);
            CHECK(UNFINISHED, (acted[0] || (unacked[c] & 1) == 0) && (acted[1] || (unacked[c] & 2) == 0));
            pending = pending & ~unacked[c]
        fi
    :: else
    fi
}

/* The script note: by the token, then by the message before, then by the serial. */
inline note(t, m, number, new_autos, new_once, new_starter, before) {
    if
    :: lease != t && !BROKEN(NOTE_WITHOUT_TOKEN) -> answer = REFUSED; SEEN(note_refused)
    :: else ->
        if
        :: (pending & before) != 0 && !BROKEN(NOTE_WITHOUT_BEFORE) -> answer = BEHIND; SEEN(note_behind_an_ack)
        :: else ->
            answer = WRITTEN;
            if
            :: serial[m] >= number && !BROKEN(NOTE_WITHOUT_SERIAL) -> SEEN(note_repeated)
            :: else ->
                printf("token %d notes message %d: %d automatic steps, once %e\n", t, m, new_autos, new_once);
                serial[m] = number; autos[m] = new_autos; once[m] = new_once; starter[m] = new_starter
            fi
        fi
    fi
}

inline tell_note(c) {
    if
    :: fate = ARRIVES
    :: faults < FAULTS -> faults++; fate = UNANSWERED; SEEN(reply_lost)
    :: faults < FAULTS -> faults++; fate = LOST; SEEN(request_lost)
    :: faults < FAULTS && !late_is_there -> faults++; fate = DELAYED; SEEN(note_delayed)
    fi;
    if
    :: fate == ARRIVES || fate == UNANSWERED || fate == DELAYED ->
        ack(c);
        note(token[c], at[c], my_serial[MINE(c)] + 1, my_autos[MINE(c)], my_once[MINE(c)], my_starter[MINE(c)], unacked[c]);
        if   /* delayed: it is delivered now, and once more at any later time */
        :: fate == DELAYED -> late_is_there = true;
            late_token = token[c]; late_at = at[c]; late_serial = my_serial[MINE(c)] + 1;
            late_autos = my_autos[MINE(c)]; late_once = my_once[MINE(c)]; late_starter = my_starter[MINE(c)]
        :: else
        fi
    :: else -> answer = (BROKEN(NOTE_NOT_WAITED) -> WRITTEN : BEHIND)
    fi;
    if
    :: fate == UNANSWERED && !BROKEN(NOTE_NOT_WAITED) -> skip   /* it is sent again */
    :: else ->
        if
        :: answer == WRITTEN -> is_dirty[c] = false; my_serial[MINE(c)] = my_serial[MINE(c)] + 1; unacked[c] = 0
        :: answer == REFUSED -> SEEN(found_its_lease_lost); forget(c)
        :: else -> skip   /* acks and note are sent again */
        fi
    fi;
    answer = 0; fate = 0
}

inline call_automatic(c) {
    printf("consumer %d calls automatic step %d of message %d\n", c, my_autos[MINE(c)], at[c]);
    CHECK(SETTLED, !acted[at[c]] || lease != token[c]);
    my_autos[MINE(c)] = my_autos[MINE(c)] + 1; is_dirty[c] = true
}

inline call_once(c) {
    printf("consumer %d calls the once step of message %d\n", c, at[c]);
    CHECK(TWICE, !acted[at[c]]);
    CHECK(AHEAD, at[c] == 0 || (pending & 1) == 0);
    acted[at[c]] = true; my_once[MINE(c)] = DONE; is_dirty[c] = true
}

inline next(c) {
    unacked[c] = unacked[c] | BIT(at[c]); at[c] = at[c] + 1; is_dirty[c] = false
}

inline release(c) {   /* with what is to be acknowledged */
    if
    :: lease == token[c] ->
        ack(c);
        if
        :: unacked[c] != 0 && (pending & unacked[c]) != 0 -> skip   /* the ack was refused: sent again */
        :: else -> end_lease(); forget(c)
        fi
    :: else -> forget(c)
    fi
}

inline park(c) {   /* a question: the ledger goes along, behind the acks */
    if
    :: lease == token[c] ->
        ack(c);
        if
        :: (pending & unacked[c]) != 0 -> skip
        :: else ->
            printf("message %d is parked: did its once step take effect?\n", at[c]); SEEN(asked);
            if
            :: BROKEN(QUESTION_DROPPED) -> pending = pending & ~BIT(at[c]); CHECK(UNFINISHED, false)
            :: else
            fi;
            serial[at[c]] = my_serial[MINE(c)] + 1; autos[at[c]] = my_autos[MINE(c)];
            lease = 0; schedule = PARKED; forget(c)
        fi
    :: else -> SEEN(found_its_lease_lost); forget(c)
    fi
}

#define AUTOMATIC_LEFT (my_autos[MINE(c)] < AUTOS)
#define MAY_START (!AUTOMATIC_LEFT && my_once[MINE(c)] != DONE && !CALLS_ONCE(c, at[c]) && !IS_UNKNOWN(c))

proctype consume(byte c) {
end_idle:
    do
    :: atomic { !HOLDS(c) && schedule == DUE && pending != 0 -> claim(c) }
    :: atomic { IN_PROGRESS(c) && AUTOMATIC_LEFT && !is_dirty[c] -> call_automatic(c) }
    :: atomic { IN_PROGRESS(c) && AUTOMATIC_LEFT && is_dirty[c] -> tell_note(c) }
    :: atomic { IN_PROGRESS(c) && MAY_START && !BROKEN(START_AFTER_CALL) ->
            my_once[MINE(c)] = STARTED; my_starter[MINE(c)] = token[c]; is_dirty[c] = true }
    :: atomic { IN_PROGRESS(c) && MAY_START && BROKEN(START_AFTER_CALL) -> call_once(c) }
    :: atomic { IN_PROGRESS(c) && CALLS_ONCE(c, at[c]) && is_dirty[c] -> tell_note(c) }
    :: atomic { IN_PROGRESS(c) && CALLS_ONCE(c, at[c]) && !is_dirty[c] -> call_once(c) }
    :: atomic { IN_PROGRESS(c) && my_once[MINE(c)] == DONE && !AUTOMATIC_LEFT && is_dirty[c] -> tell_note(c) }
    :: atomic { IN_PROGRESS(c) && my_once[MINE(c)] == DONE && !AUTOMATIC_LEFT && !is_dirty[c] -> next(c) }
    :: atomic { IN_PROGRESS(c) && BROKEN(ACK_OF_AN_OPEN_STEP) && !AUTOMATIC_LEFT && !is_dirty[c] -> next(c) }
    :: atomic { IN_PROGRESS(c) && !AUTOMATIC_LEFT && IS_UNKNOWN(c) -> park(c) }
    :: atomic { HOLDS(c) && at[c] == 2 -> release(c) }
    :: atomic { IN_PROGRESS(c) && !is_dirty[c] && !CALLS_ONCE(c, at[c]) && faults < FAULTS -> faults++; SEEN(released);
            release(c) }
    :: atomic { HOLDS(c) && faults < FAULTS -> faults++; SEEN(consumer_died); printf("consumer %d dies\n", c); forget(c) }
    od
}

#define IS_HELD ((HOLDS(0) && token[0] == lease) || (HOLDS(1) && token[1] == lease))

proctype world() {   /* time, and a person */
end_quiet:
    do
    :: atomic { schedule == LATER && !IS_HELD -> schedule = DUE; SEEN(lease_of_the_dead_ran_out) }
    :: atomic { schedule == LATER && IS_HELD && faults < FAULTS -> faults++; schedule = DUE;
            printf("token %d runs out while its holder lives\n", lease); SEEN(lease_of_the_living_ran_out) }
    :: atomic { schedule == PARKED && !CALLS_ONCE(0, HEAD) && !CALLS_ONCE(1, HEAD) ->
            if
            :: acted[HEAD] -> once[HEAD] = DONE; SEEN(answered_done)
            :: else -> once[HEAD] = STEP_OPEN; SEEN(answered_again)
            fi;
            serial[HEAD] = serial[HEAD] + 1; starter[HEAD] = 0; schedule = DUE }
    :: atomic { late_is_there ->
            printf("late: "); note(late_token, late_at, late_serial, late_autos, late_once, late_starter, 0);
            late_is_there = false; late_token = 0; late_at = 0; late_serial = 0; late_autos = 0; late_once = 0;
            late_starter = 0; answer = 0 }
    od
}

proctype judge() {   /* when nothing can happen any more */
    timeout -> CHECK(STUCK, pending == 0 && lease == 0 && acted[0] && acted[1])
}

init {
    atomic {
        COUNT_SEEN;
        once[0] = STEP_OPEN; once[1] = STEP_OPEN;
        run consume(0); run consume(1); run world(); run judge()
    }
}
