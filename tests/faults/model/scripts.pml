/* The scripts of the lease protocol, one inline each, with the places where a mutant differs. Included by lease.pml.
   `refused` is their answer: the token was not valid, and nothing was changed. */

inline append(m) {
    if
    :: HAS(pending, m) -> SEEN(append_repeated_while_pending)
    :: HAS(remembered, m) && !BROKEN(APPEND_FORGETS) -> SEEN(append_repeated_after_handled)
    :: else ->
        printf("message %d is appended to group %d\n", m, GROUP(m));
        CHECK(ONCE, !HAS(stored, m));
        STAMP(m);
        pending = pending | BIT(m); stored = stored | BIT(m);
        if
        :: (schedule[GROUP(m)] == 0 || BROKEN(APPEND_WITHOUT_NX)) && !BROKEN(APPEND_WITHOUT_SCHEDULE) ->
            schedule[GROUP(m)] = DUE; hint = BROKEN(HINT_IS_TRUTH)
        :: BROKEN(APPEND_WAKES_PARKED) && schedule[GROUP(m)] == PARKED -> schedule[GROUP(m)] = DUE
        :: else -> SEEN(append_to_a_scheduled_group)
        fi;
        if :: lease[GROUP(m)] != 0 -> SEEN(append_to_a_leased_group) :: else fi
    fi;
    check_group(GROUP(m))
}

#define CAN_CLAIM(g) (schedule[g] == DUE && (hint || !BROKEN(HINT_IS_TRUTH)))

inline claim(c, g) {
    send();
    if
    :: fate == LOST || fate == DELAYED -> skip   /* not repeated; executed late is the same as a lost reply */
    :: else ->
        CHECK(RESUMED, !is_parked[g]);
        CHECK(ENDED, lease[g] == 0 || !answered[g]);
        CHECK(HELD, lease[g] == 0 || ran_out[g]);
        d_step {
            first(OF(g), taken);
            if
            :: BROKEN(TOKEN_STAYS) && newest > 0 -> token = newest
            :: BROKEN(CLAIM_KEEPS_TOKEN) && lease[g] != 0 -> token = lease[g]
            :: else -> token = clock + 1
            fi
        }
        CHECK(TOKEN_GROWS, token > newest);
        if :: lease[g] != 0 -> SEEN(claim_of_an_expired_lease) :: else fi;
        if :: fate == ARRIVES -> take(c, g) :: else fi;
        attempts[taken] = attempts[taken] + (lease[g] != 0 && attempts[taken] < MAX_ATTEMPTS -> 1 : 0);
        clock = token; newest = token;
        lease[g] = token; ran_out[g] = false; answered[g] = false;
        schedule[g] = (BROKEN(CLAIM_TAKES_OUT) -> 0 : LATER);
        hint = hint && (schedule[0] == DUE || schedule[LAST] == DUE);
        printf("consumer %d claims group %d, token %d, answered %d\n", c, g, token, fate == ARRIVES);
        check_group(g)
    fi;
    fate = 0; token = 0; taken = 0
}

inline take(c, g) {   /* the claim's reply: everything, or one message where a lease expired */
    holds[c] = true; holds_group[c] = g; holds_token[c] = token; head[c] = taken;
    batch[c] = (lease[g] != 0 -> BIT(taken) : (BROKEN(CLAIM_INVENTS) -> members_of[g] : OF(g)));
    known[c] = stored & members_of[g]
}

#define MAY_ACK(g, t, gone) (lease[g] == t || (BROKEN(ACK_WITHOUT_TOKEN) && gone != 0))
#define MAY_RELEASE(g, t, release) (lease[g] == t || (BROKEN(RELEASE_WITHOUT_TOKEN) && release))

inline ack(g, t, gone, release) {
    if
    :: MAY_ACK(g, t, gone) || MAY_RELEASE(g, t, release) ->
        printf("group %d, token %d: acknowledges the set %d, releases %d\n", g, t, gone, release);
        if
        :: gone != 0 && MAY_ACK(g, t, gone) ->
            taken = (BROKEN(ACK_BY_POSITION) -> 0 : gone & pending);
            if
            :: BROKEN(ACK_BY_POSITION) -> d_step { take_from_the_front(g, gone) }
            :: else
            fi;
            CHECK(LOST_MESSAGE, (taken & ~succeeded) == 0);
            pending = pending & ~taken; remembered = remembered | gone; failure[g] = false; taken = 0
        :: else
        fi;
        if
        :: (OF(g) == 0 && MAY_ACK(g, t, 1)) || (BROKEN(RELEASE_WITHOUT_LOOK) && release) ->
            schedule[g] = 0; is_parked[g] = false; end_lease(g)
        :: else ->
            if
            :: release && OF(g) != 0 && MAY_RELEASE(g, t, release) ->
                schedule[g] = DUE; hint = BROKEN(HINT_IS_TRUTH); end_lease(g); SEEN(released_with_messages_left)
            :: else
            fi
        fi;
        check_group(g)
    :: else -> refused = true; SEEN(ack_refused)
    fi
}

inline take_from_the_front(g, gone) {   /* as many as were handled, whichever they are now */
    do
    :: k < MESSAGES -> token = token + (HAS(gone, k) -> 1 : 0); k++
    :: else -> break
    od;
    k = 0;
    do
    :: token > 0 && (OF(g) & ~taken) != 0 ->
        first(OF(g) & ~taken, front); taken = taken | BIT(front); token--
    :: else -> break
    od;
    token = 0; front = 0
}

inline end_lease(g) {
    lease[g] = 0; ran_out[g] = false; answered[g] = true
}

inline nack(g, t, m, made, before) {   /* before: what was acknowledged in the same flight, and must be gone */
    if
    :: lease[g] == t && (pending & (before)) != 0 && !BROKEN(NACK_IGNORES_ACK) -> refused = true; SEEN(nack_behind)
    :: lease[g] == t && ((pending & (before)) == 0 || BROKEN(NACK_IGNORES_ACK)) ->
        attempts[m] = made; failure[g] = true;
        schedule[g] = (made >= MAX_ATTEMPTS -> PARKED : LATER); is_parked[g] = (made >= MAX_ATTEMPTS);
        printf("group %d, token %d: message %d failed, tried %d\n", g, t, m, made);
        if :: BROKEN(NACK_KEEPS_LEASE) -> answered[g] = true; ran_out[g] = true :: else -> end_lease(g) fi;
        if :: is_parked[g] -> SEEN(parked) :: else fi;
        check_group(g)
    :: else -> refused = true; SEEN(nack_refused)
    fi
}

inline renew(g, t) {
    if
    :: lease[g] == t || BROKEN(RENEW_WITHOUT_TOKEN) || BROKEN(RENEW_RECREATES) ->
        if
        :: schedule[g] != 0 || BROKEN(RENEW_RECREATES) ->
            printf("group %d, token %d: renewed\n", g, t);
            schedule[g] = LATER; ran_out[g] = false; SEEN(renewed)
        :: else
        fi;
        if :: HOLDS(0, g) -> is_overrun[0] = false :: else fi;
        if :: HOLDS(1, g) -> is_overrun[1] = false :: else fi;
        check_group(g)
    :: else -> refused = true; SEEN(renewal_refused)
    fi
}

inline resume(g) {
    d_step { first(OF(g), taken) }
    printf("group %d is resumed\n", g);
    attempts[taken] = 0; taken = 0; failure[g] = false; is_parked[g] = false; schedule[g] = DUE; SEEN(resumed);
    hint = BROKEN(HINT_IS_TRUTH);
    check_group(g)
}

inline take_away(g) {   /* skip or cancel, of a head whose lease ran out: its holder is refused from then on */
    d_step { first(OF(g), taken) }
    printf("message %d of group %d, token %d, is taken away\n", taken, g, lease[g]);
    pending = pending & ~BIT(taken); remembered = remembered | BIT(taken); succeeded = succeeded | BIT(taken);
    attempts[taken] = 0; taken = 0; failure[g] = false;
    schedule[g] = (OF(g) != 0 -> DUE : 0); hint = BROKEN(HINT_IS_TRUTH);
    if :: BROKEN(TAKE_KEEPS_LEASE) -> answered[g] = true :: else -> end_lease(g) fi;
    SEEN(taken_away);
    check_group(g)
}
