/* Sizes, checks, mutants and counters of lease.pml and steps.pml; each can be set with -D. Spin's preprocessor is gcc -E. */

#ifndef GROUPS
#define GROUPS 1
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif
#ifndef FAULTS
#define FAULTS 2   /* in all, of any kinds */
#endif
#ifndef MAX_ATTEMPTS
#define MAX_ATTEMPTS 2
#endif

/* Messages have the scores 0, 1, 2 ... and may arrive in another order, also late; or equal scores: stamps decide. */
#ifdef EQUAL_SCORES
#define BEFORE(a, b) (stamp[a] < stamp[b])
#define STAMP(m) d_step { \
    do :: k < MESSAGES -> stamp[m] = stamp[m] + (HAS(stored, k) -> 1 : 0); k++ :: else -> break od; \
    k = 0 }
#else
#define BEFORE(a, b) ((a) < (b))
/* m: arrives after one behind it in order was handled */
#define STAMP(m) if :: (succeeded & members_of[GROUP(m)]) > BIT(m) -> SEEN(late_message_arrived) :: else fi
#endif

mtype = {SCHEDULED, WAITS_FOR_NOTHING, ONCE, RESUMED, ENDED, HELD, TOKEN_GROWS, LOST_MESSAGE, INVENTED, NEEDLESS_REPEAT,
    ORDER, EXCLUSIVE, STUCK};
#define CHECK(name, condition) if :: (condition) :: else -> printf("VIOLATED %e\n", name); assert(false) fi

#ifdef MUTANT
#define BROKEN(name) (MUTANT == name)
#else
#define BROKEN(name) false
#endif
#define APPEND_WITHOUT_SCHEDULE 1
#define APPEND_WITHOUT_NX 2
#define APPEND_FORGETS 3
#define CLAIM_TAKES_OUT 4
#define CLAIM_KEEPS_TOKEN 5
#define TOKEN_STAYS 6
#define HINT_IS_TRUTH 7
#define ACK_WITHOUT_TOKEN 8
#define ACK_BY_POSITION 9
#define RELEASE_WITHOUT_TOKEN 10
#define RELEASE_WITHOUT_LOOK 11
#define NACK_KEEPS_LEASE 12
#define NACK_BEFORE_ACK 13
#define RENEW_WITHOUT_TOKEN 14
#define RENEW_RECREATES 15
#define SKIPS_FAILED 16
#define APPEND_WAKES_PARKED 17
#define CLAIM_INVENTS 18
#define NACK_IGNORES_ACK 27
#define TAKE_KEEPS_LEASE 28
/* Those of steps.pml. */
#define START_AFTER_CALL 19
#define NOTE_NOT_WAITED 20
#define NOTE_WITHOUT_TOKEN 21
#define NOTE_WITHOUT_SERIAL 22
#define NOTE_WITHOUT_BEFORE 23
#define ONCE_AS_AUTOMATIC 24
#define ACK_OF_AN_OPEN_STEP 25
#define QUESTION_DROPPED 26

/* The consumer's own mutants. */
#define NACK_FIRST (BROKEN(NACK_BEFORE_ACK) && has_failed[c])
#define fail(c) if \
    :: BROKEN(SKIPS_FAILED) -> batch[c] = batch[c] & ~BIT(head[c]); next(c) \
    :: else -> has_failed[c] = true \
    fi

/* How often each event is met in the search: outside of the state, printed at its end. */
#ifdef COUNT
c_decl {
    extern long *seen(const char *name);
}
c_code {
    static struct { const char *name; long count; } met[100];
    long *seen(const char *name) {
        int i = 0;
        while (met[i].name && strcmp(met[i].name, name)) i++;
        met[i].name = name;
        return &met[i].count;
    }
    static void print_met(void) {
        int i;
        for (i = 0; met[i].name; i++) printf("MET %s %ld\n", met[i].name, met[i].count);
    }
}
#define SEEN(event) c_code { { static long *n; if (!n) n = seen(#event); ++*n; } }
#define COUNT_SEEN c_code { atexit(print_met); }
#else
#define SEEN(event) skip
#define COUNT_SEEN skip
#endif
