"""Countdown timers, with callbacks by name: what `tb_time_limit_task` and its Redis keys were for (001).

A timer's key is `Class@method@argument@...`. To run it: `sequencer consume timers --app countdown:seq`.
"""

from sequencer import Message, Sequencer
from sequencer.errors import MessageNotFound

NO_TIME, NO_TIMER = -1, -2
"""As TTL says them."""

seq = Sequencer(
    "timers",
    kind_by="callback",
    on_unknown="dead_letter",
    history_window=30 * 86_400,  # the rows: which timers fired, and when
)


def create(key: str, seconds: float) -> None:
    """Set a timer, or set it again."""
    class_name, method, *arguments = key.split("@")
    body = {"callback": f"{class_name}@{method}", "arguments": arguments}
    seq.append(body, group=key, id=key, delay=seconds, replace=True)


def create_ms(key: str, milliseconds: int) -> None:
    create(key, milliseconds / 1000)


def get_pttl(key: str) -> int:
    """Milliseconds that are left, 0 for one that is due; else NO_TIMER, or NO_TIME where a person must look."""
    timer = seq.get(key, key)
    if timer is None or timer.status == "finished":
        return NO_TIMER
    return NO_TIME if timer.due_in_s is None else round(timer.due_in_s * 1000)


def get_ttl(key: str) -> int:
    """Seconds that are left, as `get_pttl`."""
    rest = get_pttl(key)
    return rest if rest < 0 else round(rest / 1000)


def delete(key: str) -> bool:
    """Delete a timer; whether there was one. Raises MessageBusy while it fires."""
    try:
        seq.cancel(key, key)
    except MessageNotFound:
        return False
    return True


@seq.step("Order@close")
def close_order(message: Message) -> None:
    (order,) = message.body["arguments"]
    print(f"order {order} closed")


@seq.step("Coupon@expire")
def expire_coupon(message: Message) -> None:
    user, coupon = message.body["arguments"]
    print(f"coupon {coupon} of user {user} expired")
