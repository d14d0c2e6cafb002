"""The smallest tool there is: the time."""

from __future__ import annotations

import datetime
import zoneinfo

from worker import ToolError, tool


@tool(effect="read")
def get_current_time(timezone: str = "UTC") -> str:
    """查询当前日期、时间和星期。Current date, time and weekday in a time zone.

    Args:
        timezone: IANA 时区名,如 Asia/Shanghai。IANA time zone name, such as Europe/London.
    """
    try:
        zone = zoneinfo.ZoneInfo(timezone)
    except (KeyError, ValueError, OSError) as error:
        raise ToolError(
            f"timezone {timezone!r} is not an IANA name; use one such as Asia/Shanghai or UTC"
        ) from error
    return datetime.datetime.now(zone).strftime(f"%Y-%m-%d %H:%M:%S %A ({timezone}, UTC%z)")
