/* The lease protocol, for spin: what append, claim, ack, nack, renew, resume and skip do, and what may happen around
   them.

   Two producers and two consumers; a dead consumer is replaced at once. Each script is one atomic step. Between any two
   steps another party may act, time may pass, and up to FAULTS faults of any kind may take effect, in any combination:
   a consumer or a producer dies, a lease runs out while its holder lives, a handler fails, a request is lost, its reply
   is lost, it is delivered at any later time, or twice, an ack is refused and the nack behind it arrives, a consumer
   gives its group back, a person takes away a head whose lease ran out. A lease without a living holder and a backoff
   run out without being counted.

   Time is nondeterminism: LATER becomes DUE at any step. Stamps and tokens are ticks of one clock, of which only the
   order matters: tokens are counted, stamps are the ranks of arrival. Claims never depend on a hint here, which stands
   for the loss of any of them. Ids handled are remembered for ever (the window is `dedup_window`). The attempts of a
   message are read when it is begun, not when it was claimed. Left out: timers, gaps, pauses, dead letters, and claims
   of several groups at once, which lease each group as here.

   Beyond safety, `judge` says that where nothing can happen any more, all is handled; and as no run has a cycle (pan -l
   with -DNP), every run comes there.

   -DMUTANT=name breaks one rule; -DCOUNT counts how often each event is met in the search. "ghost": only for checks. */

#include "settings.pml"

#define BIT(m) (1 << (m))
#define GROUP(m) ((m) % GROUPS)
#define LAST (GROUPS - 1)
#define OWNER(m) (((m) / GROUPS) % 2)
#define OF(g) (pending & members_of[g])
#define HOLDS(c, g) (holds[c] && holds_group[c] == g && holds_token[c] == lease[g])
#define HAS(mask, m) (((mask) & BIT(m)) != 0)

mtype = {DUE, LATER, PARKED};
mtype = {ARRIVES, UNANSWERED, LOST, DELAYED};
mtype = {APPEND, ACK, NACK, RENEW};

/* What the server holds. */
mtype schedule[GROUPS];     /* 0: not in it */
byte lease[GROUPS];         /* token, 0: none */
bool failure[GROUPS];
byte pending, remembered;   /* sets of messages */
byte attempts[MESSAGES], stamp[MESSAGES];
byte clock;
bool hint;                  /* only where a mutant believes in it */

/* What each consumer holds. */
bool holds[2], runs[2], has_failed[2], has_tried[2];
byte holds_group[2], holds_token[2], batch[2], done[2], acked[2], head[2];
bool is_overrun[2];         /* ghost: its lease ran out while it lived */
byte known[2];              /* ghost: what its group had been sent when it was claimed */

/* A request that was sent and is executed later. */
mtype late_kind;
byte late_group, late_token, late_members, late_attempt;
bool late_release;

byte members_of[GROUPS];
byte faults, stored, succeeded, newest;     /* ghosts */
bool is_harmed;                             /* ghost: a fault that may cause a repetition */
bool ran_out[GROUPS], answered[GROUPS], is_parked[GROUPS];  /* ghosts */

/* Used within one atomic step, and 0 between steps. */
mtype fate;
byte k, token, taken, told, front;
bool refused;

inline first(set, found) {   /* the first of a set by (score, stamp); within a d_step */
    found = MESSAGES;
    do
    :: k < MESSAGES ->
        if
        :: HAS(set, k) && (found == MESSAGES || BEFORE(k, found)) -> found = k
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

#define HARM faults++; is_harmed = true

inline check_group(g) {
    CHECK(SCHEDULED, (schedule[g] != 0) == (OF(g) != 0));
    CHECK(WAITS_FOR_NOTHING, schedule[g] != LATER || lease[g] != 0 || failure[g])
}

#include "scripts.pml"

inline send() {   /* what becomes of a request: chosen before it is executed */
    if
    :: fate = ARRIVES
    :: faults < FAULTS -> HARM; fate = UNANSWERED; SEEN(reply_lost)
    :: faults < FAULTS -> HARM; fate = LOST; SEEN(request_lost)
    :: faults < FAULTS && late_kind == 0 -> HARM; fate = DELAYED; SEEN(request_delayed)
    fi
}

inline delay(what, g, t, set, release, attempts) {
    late_kind = what; late_group = g; late_token = t; late_members = set; late_release = release;
    late_attempt = attempts; fate = 0
}

inline forget(c) {   /* the consumer has nothing any more: gave it back, lost it, or died */
    holds[c] = false; runs[c] = false; has_failed[c] = false; has_tried[c] = false;
    holds_group[c] = 0; holds_token[c] = 0; batch[c] = 0; done[c] = 0; acked[c] = 0; head[c] = 0;
    is_overrun[c] = false; known[c] = 0
}

proctype producer(byte p) {
    byte m = 0;
    do
    :: m < MESSAGES && OWNER(m) != p -> m++
    :: m < MESSAGES && OWNER(m) == p ->
        atomic {
            send();
            if
            :: fate == ARRIVES -> append(m); m++
            :: fate == UNANSWERED -> append(m)
            :: fate == DELAYED -> delay(APPEND, GROUP(m), 0, m, false, 0)
            :: fate == LOST
            fi;
            fate = 0
        }
    :: atomic { m < MESSAGES && faults < FAULTS -> HARM; SEEN(producer_died); m = MESSAGES }
    :: m == MESSAGES -> break
    od
}

#define UNACKED (done[c] & ~acked[c])
#define LEFT (batch[c] & ~done[c])
#define MAY_BEGIN (holds[c] && !runs[c] && !has_failed[c] && LEFT != 0)
#define IS_WORN_OUT (attempts[head[c]] >= MAX_ATTEMPTS)

inline next(c) {
    d_step { if :: LEFT != 0 -> first(LEFT, head[c]) :: else -> head[c] = 0 fi }
}

inline begin(c) {
    runs[c] = true;
    printf("consumer %d begins message %d of group %d, token %d\n", c, head[c], holds_group[c], holds_token[c]);
    CHECK(INVENTED, HAS(stored, head[c]));
    CHECK(NEEDLESS_REPEAT, !HAS(succeeded, head[c]) || is_harmed);
    if :: HAS(succeeded, head[c]) -> SEEN(handled_again) :: else fi;
    d_step {
        do   /* k: the first message before this one, known at the claim, that nobody succeeded with */
        :: k < MESSAGES && !(HAS(known[c] & ~succeeded, k) && BEFORE(k, head[c])) -> k++
        :: else -> break
        od
    }
    CHECK(ORDER, k == MESSAGES);
    k = 0;
    if
    :: runs[1 - c] && holds_group[1 - c] == holds_group[c] ->
        CHECK(EXCLUSIVE, is_overrun[c] || is_overrun[1 - c]);
        SEEN(two_handlers_after_a_lease_ran_out)
    :: else
    fi
}

inline tell_ack(c, release) {
    told = UNACKED;
    send();
    if
    :: fate == ARRIVES || fate == UNANSWERED ->
        ack(holds_group[c], holds_token[c], told, release);
        if
        :: fate == UNANSWERED -> has_tried[c] = true
        :: fate == ARRIVES && release -> forget(c)
        :: fate == ARRIVES && !release && refused && !has_tried[c] -> SEEN(found_its_lease_lost); forget(c)
        :: else -> acked[c] = done[c]; has_tried[c] = false
        fi
    :: fate == DELAYED -> delay(ACK, holds_group[c], holds_token[c], told, release, 0); has_tried[c] = true
    :: fate == LOST -> has_tried[c] = true
    fi;
    told = 0; fate = 0; refused = false
}

#define ATTEMPTS (attempts[head[c]] + (attempts[head[c]] < MAX_ATTEMPTS -> 1 : 0))

inline tell_nack(c) {
    told = ATTEMPTS;   /* an inline's arguments are texts: this one would grow as it is stored */
    send();
    if
    :: fate == ARRIVES || fate == UNANSWERED ->
        nack(holds_group[c], holds_token[c], head[c], told, 0);
        if :: fate == ARRIVES -> forget(c) :: else fi
    :: fate == DELAYED -> delay(NACK, holds_group[c], holds_token[c], head[c], false, told)
    :: fate == LOST
    fi;
    told = 0; fate = 0; refused = false
}

proctype consume(byte c) {
    byte g = 0;
end_idle:
    do
    :: atomic { !holds[c] && (CAN_CLAIM(0) || CAN_CLAIM(LAST)) ->
            if :: CAN_CLAIM(0) -> g = 0 :: CAN_CLAIM(LAST) -> g = LAST fi;
            claim(c, g); g = 0 }
    :: atomic { MAY_BEGIN && !IS_WORN_OUT -> begin(c) }
    :: atomic { MAY_BEGIN && IS_WORN_OUT -> has_failed[c] = true; SEEN(worn_out) }
    :: atomic { runs[c] -> runs[c] = false; done[c] = done[c] | BIT(head[c]); succeeded = succeeded | BIT(head[c]);
            printf("consumer %d ends message %d\n", c, head[c]); next(c) }
    :: atomic { runs[c] && faults < FAULTS -> faults++; SEEN(handler_failed); runs[c] = false;
            printf("consumer %d fails at message %d\n", c, head[c]); fail(c) }
    :: atomic { holds[c] && UNACKED != 0 && (has_failed[c] || LEFT != 0) && !NACK_FIRST -> tell_ack(c, false) }
    :: atomic { has_failed[c] && (UNACKED == 0 || NACK_FIRST) -> tell_nack(c) }
    :: atomic { has_failed[c] && UNACKED != 0 && faults < FAULTS && !NACK_FIRST ->   /* both in one flight, the ack of */
            faults++; SEEN(ack_refused_alone); told = ATTEMPTS;   /* which is refused: for its generation */
            nack(holds_group[c], holds_token[c], head[c], told, UNACKED);
            if :: refused -> skip :: else -> forget(c) fi;
            told = 0; refused = false }
    :: atomic { holds[c] && !has_failed[c] && LEFT == 0 -> tell_ack(c, true) }
    :: atomic { MAY_BEGIN && faults < FAULTS -> faults++; SEEN(released); batch[c] = done[c]; head[c] = 0 }
    :: atomic { holds[c] && schedule[holds_group[c]] == DUE && lease[holds_group[c]] == holds_token[c] ->
            renew(holds_group[c], holds_token[c]) }   /* one that comes in time changes nothing: no step */
    :: atomic { holds[c] && faults < FAULTS && late_kind == 0 -> HARM; SEEN(request_delayed);
            delay(RENEW, holds_group[c], holds_token[c], 0, false, 0) }
    :: atomic { holds[c] && faults < FAULTS -> HARM; SEEN(consumer_died);
            printf("consumer %d dies\n", c); forget(c) }
    od
}

proctype world(byte g) {   /* time, and somebody who resumes parked groups, and takes away what hung */
end_quiet:
    do
    :: atomic { schedule[g] == LATER && lease[g] == 0 -> schedule[g] = DUE; SEEN(backoff_ended) }
    :: atomic { schedule[g] == LATER && lease[g] != 0 && !HOLDS(0, g) && !HOLDS(1, g) ->
            schedule[g] = DUE; ran_out[g] = true; SEEN(lease_of_the_dead_ran_out);
            printf("the lease of group %d, token %d, runs out\n", g, lease[g]) }
    :: atomic { schedule[g] == LATER && lease[g] != 0 && (HOLDS(0, g) || HOLDS(1, g)) && faults < FAULTS ->
            HARM; schedule[g] = DUE; ran_out[g] = true; SEEN(lease_of_the_living_ran_out);
            printf("the lease of group %d, token %d, runs out while its holder lives\n", g, lease[g]);
            if :: HOLDS(0, g) -> is_overrun[0] = true :: else -> is_overrun[1] = true fi }
    :: atomic { schedule[g] == PARKED -> resume(g) }
    :: atomic { schedule[g] == DUE && lease[g] != 0 && ran_out[g] && faults < FAULTS -> HARM; take_away(g) }
    od
}

inline deliver() {
    if
    :: late_kind == APPEND -> append(late_members)
    :: late_kind == ACK -> ack(late_group, late_token, late_members, late_release)
    :: late_kind == NACK -> nack(late_group, late_token, late_members, late_attempt, 0)
    :: late_kind == RENEW -> renew(late_group, late_token)
    fi;
    if :: refused -> SEEN(late_request_refused) :: else fi;
    refused = false
}

proctype network() {
end_quiet:
    do
    :: atomic { late_kind != 0 -> printf("late: "); deliver(); delay(0, 0, 0, 0, false, 0) }
    :: atomic { late_kind != 0 && faults < FAULTS -> HARM; SEEN(delivered_twice); printf("late: "); deliver() }
    od
}

proctype judge() {   /* when nothing can happen any more */
    timeout -> CHECK(STUCK, pending == 0 && stored == succeeded && lease[0] == 0 && lease[LAST] == 0)
}

init {
    atomic {
        COUNT_SEEN;
        do
        :: k < MESSAGES -> members_of[GROUP(k)] = members_of[GROUP(k)] | BIT(k); k++
        :: else -> break
        od;
        k = 0;
        run producer(0); run producer(1); run consume(0); run consume(1); run world(0);
        if :: LAST > 0 -> run world(LAST) :: else fi;
        run network(); run judge()
    }
}
