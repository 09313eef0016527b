//! Which generation of the protocol a remote server speaks.
//!
//! `server/discover` is asked first. What the answer means is one table ([`judge`]); what was found
//! out is remembered for a while ([`Verdicts`]), so that a known server costs no extra request.

mod verdicts;

use std::time::Duration;

pub(crate) use verdicts::{Address, Verdict, verdicts};

use crate::failure::{Fault, McpFailureKind};

/// The longest that a server may be silent to the probe.
const MAX_PROBE: Duration = Duration::from_secs(10);

const METHOD_NOT_FOUND: i64 = -32601;
const HEADER_MISMATCH: i64 = -32020;
const MISSING_CLIENT_CAPABILITY: i64 = -32021;
const UNSUPPORTED_REVISION: i64 = -32022;

/// How long a probe waits for its answer when the server's limit is `timeout`.
pub(crate) fn probe_limit(timeout: Duration) -> Duration {
    (timeout / 2).min(MAX_PROBE)
}

/// What a greeting has seen of its answer, however it has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The HTTP status of the answer.
    pub(crate) status: Option<u16>,
    /// The code of a JSON-RPC error in it, on whatever status.
    pub(crate) code: Option<i64>,
}

/// What a probe without a modern session means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The server cannot be used, and no other way is tried.
    Failed,
    /// The handshake is tried.
    Legacy(Remember),
}

/// When it is remembered that a server is a legacy one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remember {
    /// At once: the answer is proof.
    Now,
    /// Once the handshake has succeeded.
    OnceProven,
    /// Not at all: the answer says nothing.
    Never,
}

/// The table: the first line that fits.
pub(crate) fn judge(fault: &Fault, seen: Seen) -> Meaning {
    let unreachable = fault.kind == McpFailureKind::Transport
        && matches!(fault.detail.as_deref(), Some("dns" | "connect-failed" | "spawn-failed"));
    let status = seen.status.or(fault.http_status);
    let code = seen.code.or(fault.rpc_code);
    match (status, code) {
        _ if unreachable || matches!(fault.kind, McpFailureKind::Config | McpFailureKind::Closed) => {
            Meaning::Failed
        }
        (Some(401 | 403 | 429), _) => Meaning::Failed,
        (_, Some(UNSUPPORTED_REVISION)) => Meaning::Legacy(Remember::OnceProven),
        (_, Some(HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY)) => Meaning::Failed,
        (_, Some(METHOD_NOT_FOUND)) => Meaning::Legacy(Remember::Now),
        (Some(400 | 404 | 405 | 501), _) => Meaning::Legacy(Remember::Now),
        (_, Some(_)) => Meaning::Legacy(Remember::OnceProven),
        _ => Meaning::Legacy(Remember::Never),
    }
}

/// Whether an answer shows that the verdict on a server no longer holds, whichever it was. `greeting` says
/// that it was the answer to what begins a session in the server's supposed era.
pub(crate) fn contradicts(fault: &Fault, seen: Seen, greeting: bool) -> bool {
    let code = seen.code.or(fault.rpc_code);
    match (seen.status.or(fault.http_status), code) {
        (_, Some(UNSUPPORTED_REVISION)) => true,
        // Of an ordinary method it says nothing about the era.
        (_, Some(METHOD_NOT_FOUND)) => greeting,
        (Some(404 | 405 | 501), _) => greeting || code.is_none(),
        (Some(400), None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, code: Option<i64>) -> Meaning {
        let fault = match code {
            Some(code) => Fault::rpc(code, String::new()),
            None => Fault::http_status(status),
        };
        judge(&fault, Seen { status: Some(status), code })
    }

    // MCP-120: the table, line by line
    #[test]
    fn the_answer_to_the_probe_is_judged() {
        use Meaning::{Failed, Legacy};
        use Remember::{Never, Now, OnceProven};
        for detail in ["dns", "connect-failed", "spawn-failed"] {
            assert_eq!(judge(&Fault::transport(detail), Seen::default()), Failed);
        }
        for status in [401, 403, 429] {
            for code in [None, Some(-32601), Some(-32022), Some(-32000)] {
                assert_eq!(answer(status, code), Failed, "{status} {code:?}");
            }
        }
        for status in [200, 400, 404, 405, 500, 501, 503] {
            assert_eq!(answer(status, Some(-32022)), Legacy(OnceProven), "{status}");
            assert_eq!(answer(status, Some(-32020)), Failed, "{status}");
            assert_eq!(answer(status, Some(-32021)), Failed, "{status}");
            assert_eq!(answer(status, Some(-32601)), Legacy(Now), "{status}");
        }
        for status in [400, 404, 405, 501] {
            for code in [None, Some(-32600), Some(-32000)] {
                assert_eq!(answer(status, code), Legacy(Now), "{status} {code:?}");
            }
        }
        for status in [200, 500, 503] {
            for code in [-32600, -32602, -32000, 7] {
                assert_eq!(answer(status, Some(code)), Legacy(OnceProven), "{status} {code}");
            }
        }
        for status in [202, 204, 301, 307, 402, 408, 410, 500, 502, 503] {
            assert_eq!(answer(status, None), Legacy(Never), "{status}");
        }
        for fault in [Fault::timeout(), Fault::malformed(), Fault::transport("stream-failed")] {
            assert_eq!(judge(&fault, Seen::default()), Legacy(Never), "{fault:?}");
        }
    }

    // MCP-122
    #[test]
    fn what_contradicts_a_verdict() {
        let says = |status, code: Option<i64>, greeting| {
            contradicts(&Fault::http_status(status), Seen { status: Some(status), code }, greeting)
        };
        for greeting in [true, false] {
            for status in [400, 404, 405, 501] {
                assert!(says(status, None, greeting), "{status}");
            }
            assert!(says(200, Some(-32022), greeting));
            assert!(!says(400, Some(-32602), greeting));
            for status in [200, 401, 403, 429, 500, 503] {
                assert!(!says(status, None, greeting), "{status}");
            }
            assert!(!contradicts(&Fault::timeout(), Seen::default(), greeting));
        }
        for status in [200, 404] {
            assert!(says(status, Some(-32601), true), "{status}");
            assert!(!says(status, Some(-32601), false), "an unknown method: {status}");
        }
    }

    // MCP-120
    #[test]
    fn a_probe_is_given_half_the_time_and_ten_seconds() {
        assert_eq!(probe_limit(Duration::from_millis(300)), Duration::from_millis(150));
        assert_eq!(probe_limit(Duration::from_secs(30)), Duration::from_secs(10));
    }
}
