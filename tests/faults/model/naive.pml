/* The naive version: list, SETNX guard and lock, step by step as in benchmarks/load/naive.py. A negative control: it must
   fail, with one group, one producer, one consumer and two messages (the lost wake-up), and with one message and one
   crash (the dead group). -DCRASHES=1 lets the consumer die once; another one takes its place, and the lock expires. */

#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif

mtype = {STUCK};
#define CHECK(name, condition) if :: (condition) :: else -> printf("VIOLATED %e\n", name); assert(false) fi

byte order, dispatch, crashes;   /* messages of the group; entries of the list that name it */
bool guard, lock, is_alive;

#define DIES atomic { crashes < CRASHES -> crashes++; is_alive = false; printf("the consumer dies\n"); goto end_idle }

proctype producer() {
    byte m = 0;
    do
    :: m < MESSAGES -> atomic { order++; printf("the producer stores message %d\n", m) };
        atomic {
            if
            :: !guard -> guard = true; dispatch++; printf("the producer sets the guard and pushes the group\n")
            :: else -> printf("the producer sees the guard and pushes nothing\n")
            fi;
            m++
        }
    :: else -> break
    od
}

proctype consume() {
end_idle:
    atomic { dispatch > 0 -> dispatch--; printf("the consumer pops the group\n") };
    if
    :: atomic { !lock -> lock = true; is_alive = true }
    :: atomic { lock -> printf("the consumer finds the lock taken and drops the group\n") ; goto end_idle }
    :: DIES
    fi;
drain:
    if
    :: atomic { order > 0 -> printf("the consumer handles the head\n") };
        if :: order-- :: DIES fi;
        goto drain
    :: atomic { order == 0 -> printf("the consumer finds no message left\n") }
    :: DIES
    fi;
    if
    :: atomic { guard = false; printf("the consumer deletes the guard\n") }
    :: DIES
    fi;
    atomic { lock = false; is_alive = false };
    goto end_idle
}

proctype time() {
end_quiet:
    do
    :: atomic { lock && !is_alive -> lock = false; printf("the lock of the dead consumer expires\n") }
    od
}

proctype judge() {
    timeout -> CHECK(STUCK, order == 0)
}

init {
    atomic { run producer(); run consume(); run time(); run judge() }
}
