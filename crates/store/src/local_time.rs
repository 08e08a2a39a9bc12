//! Local wall-clock names of index files, as Java's `SimpleDateFormat("yyyyMMddHHmmssSSS")` writes them.

pub(crate) fn yyyymmddhhmmssmmm(epoch_ms: i64) -> String {
    let seconds = epoch_ms.div_euclid(1000) as libc::time_t;
    // SAFETY: plain integers and a pointer, for which all zeros is a value; localtime_r fills it.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    unsafe { libc::localtime_r(&seconds, &mut tm) };
    format!(
        "{:04}{:02}{:02}{:02}{:02}{:02}{:03}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
        epoch_ms.rem_euclid(1000)
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_have_seventeen_digits_and_sort_by_time() {
        let earlier = super::yyyymmddhhmmssmmm(1_700_000_000_007);
        let later = super::yyyymmddhhmmssmmm(1_700_000_001_006);
        assert_eq!(earlier.len(), 17);
        assert!(earlier.ends_with("007") && later.ends_with("006") && earlier < later);
    }
}
