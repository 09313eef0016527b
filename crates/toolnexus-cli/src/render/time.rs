//! Points in time, as people and programs read them: always in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// `2026-11-30 08:41:27 UTC`.
pub(crate) fn utc(time: SystemTime) -> String {
    let [year, month, day, hour, minute, second, _] = parts(time);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// `2026-11-30T08:41:27.123Z`.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let [year, month, day, hour, minute, second, millisecond] = parts(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

/// Year, month, day, hour, minute, second, millisecond. Nothing here is older than 1970.
fn parts(time: SystemTime) -> [u64; 7] {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    // Years begin in March here, so that the day that leap years have more is the last of a year, and
    // are counted from the year 0, of which 719,468 days had passed on 1970-01-01.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let of_day = seconds % 86_400;
    [year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60, u64::from(since.subsec_millis())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_are_counted_as_calendars_do() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_796_028_087, "2026-11-30 08:41:27 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_millis(1_007)), "1970-01-01T00:00:01.007Z");
    }
}
