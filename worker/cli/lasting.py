"""What `doctor` says of servers that would lose what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.cli.finding import Finding, checked

if TYPE_CHECKING:
    from worker.settings import Settings


async def check_lasting(settings: Settings) -> list[Finding]:
    """Ask each Redis server in the settings what its crash would cost, and RabbitMQ for how long it
    leaves a task in work; silence is no finding.
    """
    from worker.queues import server_urls

    queues = server_urls(settings.queue_url, settings.sharding())
    places = [("queue", url) for url in queues]
    places.append(("store", settings.store_url or settings.queue_url))
    asked: dict[str, str] = {}
    for what, url in places:
        if url.partition(":")[0].lower() in ("redis", "rediss"):
            asked[url] = f"{asked[url]} and {what}" if url in asked else what
    found = [
        await checked(what.partition(" ")[0], _lasting(what, url)) for url, what in asked.items()
    ]
    for url in queues:
        if url.partition(":")[0].lower() in ("amqp", "amqps"):
            found.append(await checked("queue", _patience(url, settings.deadline)))
    # One that cannot be reached, or is set up wrong, has been told of by the checks before.
    return [each for each in found if each.is_odd]


async def _lasting(what: str, url: str) -> Finding:
    from worker.configuration import masked
    from worker.core.errors import StoreUnavailable
    from worker.redislink import RedisLink, settings_of

    link = RedisLink(settings_of(url), unavailable=StoreUnavailable)
    try:
        frailty = await link.frailty()
    finally:
        await link.close()
    text = f"{masked(url)}: {frailty}" + (" (it holds the journal)" if "store" in what else "")
    return Finding(what.partition(" ")[0], text, is_odd=bool(frailty))


async def _patience(url: str, deadline: float) -> Finding:
    from worker.configuration import masked
    from worker.queues.rabbit_address import address_of
    from worker.queues.rabbit_link import RabbitLink, impatient

    link = RabbitLink(address_of(url))
    try:
        connection = await link.run(link.connected())
    finally:
        await link.close()
    said = impatient(connection.version, longest_seconds=deadline)
    return Finding("queue", f"{masked(url)}: {said}", is_odd=bool(said))
