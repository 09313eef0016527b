//! Which hosts a tool may reach, checked on names and on addresses.
//!
//! A policy is two lists of patterns. [`HostPolicy::compile`] reads them once; the compiled form
//! answers for a host name together with the addresses it resolves to. Whoever connects must use
//! the very addresses that were checked, which is what [`CheckedResolver`] is for, and ask again for
//! every redirect.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::{Deserialize, Serialize};
use toolnexus_core::BoxError;
use url::Host;

/// Hosts that a tool may and may not reach. Both lists empty, the default: every host.
///
/// A pattern is a host name or address, `*.` and a domain for its subdomains, a CIDR block, or one of
/// these words:
///
/// * `loopback`: this machine. `127.0.0.0/8`, `::1`, the name `localhost`, and `0.0.0.0/8` and `::`,
///   which reach this machine too.
/// * `private`: networks that are not the internet's. RFC 1918, `100.64.0.0/10`, `fc00::/7`,
///   `fec0::/10`.
/// * `link-local`: `169.254.0.0/16` (cloud metadata services are there) and `fe80::/10`.
///
/// `deny` refuses a host whose name, or any of whose addresses, matches, and beats `allow`. A
/// non-empty `allow` wants the name, or every address, to match. Through a proxy only the name is
/// checked, since the proxy resolves it.
///
/// ```
/// use toolnexus_tools::HostPolicy;
/// let policy = HostPolicy {
///     deny: vec!["loopback".into(), "private".into(), "link-local".into()],
///     ..Default::default()
/// };
/// assert!(policy.compile().is_ok());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostPolicy {
    /// What may be reached; empty: everything that is not denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// What may not be reached, whatever `allow` says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

impl HostPolicy {
    /// Whether every host may be reached.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    /// Reads the patterns.
    ///
    /// # Errors
    /// [`InvalidHostPattern`] for the first that cannot be read.
    ///
    /// ```
    /// use toolnexus_tools::HostPolicy;
    /// let policy = HostPolicy { allow: vec!["https://example.com".into()], ..Default::default() };
    /// assert_eq!(policy.compile().unwrap_err().pattern, "https://example.com");
    /// ```
    pub fn compile(&self) -> Result<CompiledHostPolicy, InvalidHostPattern> {
        let read = |patterns: &[String]| {
            patterns.iter().map(|text| Pattern::read(text)).collect::<Result<Vec<_>, _>>()
        };
        Ok(CompiledHostPolicy { allow: read(&self.allow)?, deny: read(&self.deny)? })
    }
}

/// A pattern of a [`HostPolicy`] that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid host pattern \"{pattern}\": use a host name, \"*.\" and a domain, a CIDR block, or one of \
     loopback, private, link-local"
)]
pub struct InvalidHostPattern {
    /// The pattern as it was given.
    pub pattern: String,
}

/// A [`HostPolicy`] that can be asked.
///
/// ```
/// use toolnexus_tools::HostPolicy;
/// let policy = HostPolicy { deny: vec!["10.0.0.0/8".into()], ..Default::default() }.compile().unwrap();
/// let resolved = ["93.184.216.34".parse().unwrap()];
/// assert!(policy.permits_name("example.com") && policy.permits("example.com", &resolved));
/// assert!(!policy.permits("example.com", &["10.1.2.3".parse().unwrap()]));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompiledHostPolicy {
    allow: Vec<Pattern>,
    deny: Vec<Pattern>,
}

impl CompiledHostPolicy {
    /// Whether every host may be reached.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    /// Whether a host may be reached at these addresses; none of them means that none is known.
    pub fn permits(&self, name: &str, addresses: &[IpAddr]) -> bool {
        let host = CheckedHost::of(name);
        let denied = self.deny.iter().any(|pattern| {
            pattern.matches_name(&host) || addresses.iter().any(|address| pattern.touches(*address))
        });
        if denied {
            return false;
        }
        let allowed_address =
            |address: &IpAddr| self.allow.iter().any(|pattern| pattern.holds(address.to_canonical()));
        self.allow.is_empty()
            || self.allow.iter().any(|pattern| pattern.matches_name(&host))
            || (!addresses.is_empty() && addresses.iter().all(allowed_address))
    }

    /// Whether a host may be reached as far as its name tells: all that can be known where a proxy
    /// resolves it. An address given in place of a name is checked as one.
    pub fn permits_name(&self, name: &str) -> bool {
        let literal: Vec<IpAddr> = address_of(name).into_iter().collect();
        self.permits(name, &literal)
    }

    /// Whether a name need not even be resolved: whatever its addresses are, it is denied, or not
    /// allowed.
    pub(crate) fn denies_name(&self, name: &str) -> bool {
        let host = CheckedHost::of(name);
        let matches = |pattern: &Pattern| pattern.matches_name(&host);
        let could_allow = |pattern: &Pattern| pattern.is_of_addresses() || matches(pattern);
        self.deny.iter().any(matches) || !(self.allow.is_empty() || self.allow.iter().any(could_allow))
    }
}

/// The address that stands in place of a name, brackets and odd spellings included.
pub(crate) fn address_of(name: &str) -> Option<IpAddr> {
    match Host::parse(name).ok()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

/// A host as patterns see it: lower case, IDNA-encoded, without the dot of the root.
struct CheckedHost(Option<String>);

impl CheckedHost {
    fn of(name: &str) -> Self {
        CheckedHost(domain(name))
    }

    fn is_local(&self) -> bool {
        let name = self.0.as_deref();
        name.is_some_and(|name| name == "localhost" || name.ends_with(".localhost"))
    }
}

/// The domain that a name is; `None` for addresses and what is no host.
fn domain(name: &str) -> Option<String> {
    match Host::parse(name).ok()? {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            (!name.is_empty()).then(|| name.to_owned())
        }
        Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Name(String),
    /// Every name below this one.
    Below(String),
    Network(IpNet),
    Loopback,
    Private,
    LinkLocal,
}

impl Pattern {
    fn read(text: &str) -> Result<Self, InvalidHostPattern> {
        let invalid = || InvalidHostPattern { pattern: text.to_owned() };
        let trimmed = text.trim();
        match trimmed.to_ascii_lowercase().as_str() {
            "loopback" => return Ok(Pattern::Loopback),
            "private" => return Ok(Pattern::Private),
            "link-local" => return Ok(Pattern::LinkLocal),
            _ => {}
        }
        if let Some((address, _)) = trimmed.split_once('/') {
            // A URL with a slash is no block, and says so by its first half.
            address.parse::<IpAddr>().map_err(|_| invalid())?;
            return trimmed
                .parse::<IpNet>()
                .map(|net| Pattern::Network(canonical(net)))
                .map_err(|_| invalid());
        }
        if let Ok(address) = trimmed.parse::<IpAddr>() {
            return Ok(Pattern::Network(IpNet::from(address.to_canonical())));
        }
        if let Some(address) = address_of(trimmed) {
            return Ok(Pattern::Network(IpNet::from(address.to_canonical())));
        }
        if let Some(parent) = trimmed.strip_prefix("*.") {
            return readable_domain(parent).map(Pattern::Below).ok_or_else(invalid);
        }
        readable_domain(trimmed).map(Pattern::Name).ok_or_else(invalid)
    }

    fn matches_name(&self, host: &CheckedHost) -> bool {
        let Some(name) = host.0.as_deref() else { return false };
        match self {
            Pattern::Name(pattern) => name == pattern,
            Pattern::Below(parent) => {
                name.strip_suffix(parent).is_some_and(|labels| labels.len() > 1 && labels.ends_with('.'))
            }
            Pattern::Loopback => host.is_local(),
            Pattern::Network(_) | Pattern::Private | Pattern::LinkLocal => false,
        }
    }

    /// Whether addresses are looked at, beside the name or instead of it.
    const fn is_of_addresses(&self) -> bool {
        !matches!(self, Pattern::Name(_) | Pattern::Below(_))
    }

    /// Whether a connection to this address could arrive at what the pattern means: for a refusal,
    /// so every address that is wrapped in it counts.
    fn touches(&self, address: IpAddr) -> bool {
        forms(address).into_iter().flatten().any(|form| self.holds(form))
    }

    fn holds(&self, address: IpAddr) -> bool {
        match (self, address) {
            (Pattern::Network(net), address) => net.contains(&address),
            (Pattern::Loopback, IpAddr::V4(v4)) => matches!(v4.octets(), [0 | 127, ..]),
            (Pattern::Loopback, IpAddr::V6(v6)) => v6.is_loopback() || v6.is_unspecified(),
            (Pattern::Private, IpAddr::V4(v4)) => {
                v4.is_private() || matches!(v4.octets(), [100, second, ..] if second & 0xc0 == 64)
            }
            (Pattern::Private, IpAddr::V6(v6)) => {
                let [first, ..] = v6.segments();
                first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0
            }
            (Pattern::LinkLocal, IpAddr::V4(v4)) => v4.is_link_local(),
            (Pattern::LinkLocal, IpAddr::V6(v6)) => {
                v6.segments().first().is_some_and(|s| s & 0xffc0 == 0xfe80)
            }
            (Pattern::Name(_) | Pattern::Below(_), _) => false,
        }
    }
}

/// The domain of a pattern; unlike in a URL, nothing is repaired in it.
fn readable_domain(text: &str) -> Option<String> {
    let odd =
        |c: char| matches!(c, '*' | ':' | '@' | '%' | '[' | ']' | '?' | '#' | '\\') || c.is_whitespace();
    if text.contains(odd) { None } else { domain(text) }
}

/// The address itself, and the IPv4 address that IPv6 has ways to wrap: mapped, compatible, by NAT64,
/// by 6to4.
fn forms(address: IpAddr) -> [Option<IpAddr>; 2] {
    let IpAddr::V6(v6) = address else { return [Some(address), None] };
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    let wrapped = match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(v4(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(v4(high, low)),
        [0x64, 0xff9b, 0, .., high, low] => Some(v4(high, low)),
        // The local prefix of RFC 8215 is 48 bits long; a zero byte stands in the middle (RFC 6052).
        [0x64, 0xff9b, 1, high, low, last, ..] => Some(v4(high, (low << 8) | (last >> 8))),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    };
    [Some(address), wrapped]
}

/// A block of mapped addresses is the block of what they map.
fn canonical(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net.trunc() else { return net.trunc() };
    let mapped = v6.network().to_ipv4_mapped().filter(|_| v6.prefix_len() >= 96);
    mapped
        .and_then(|v4| Ipv4Net::new(v4, v6.prefix_len() - 96).ok())
        .map_or(IpNet::V6(v6), |v4| IpNet::V4(v4.trunc()))
}

/// Why a name was not connected to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unresolved {
    #[error("the host's address is not allowed")]
    Denied,
    #[error("the host's name could not be resolved")]
    Unknown(#[source] Option<std::io::Error>),
}

/// Resolves names and gives out only what the policy permits, so that no other address can be
/// connected to than the one that was checked.
pub(crate) struct CheckedResolver(pub(crate) Arc<CompiledHostPolicy>);

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = Arc::clone(&self.0);
        Box::pin(async move {
            let looked_up = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found: Vec<SocketAddr> = match looked_up {
                Ok(found) => found.collect(),
                Err(error) => return Err(BoxError::from(Unresolved::Unknown(Some(error)))),
            };
            if found.is_empty() {
                return Err(Unresolved::Unknown(None).into());
            }
            let addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
            if !policy.permits(name.as_str(), &addresses) {
                return Err(Unresolved::Denied.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
