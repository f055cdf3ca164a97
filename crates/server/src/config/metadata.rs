//! Where the coordinator's metadata is kept.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use shorttail_gateway::session::Credential;

use super::by_text;
use super::credentials::read_credentials;
use super::error::{ConfigError, within};
use super::limits::{ETCD_POLL_S_MAX, ETCD_URL_COUNT_MAX};

/// A store of metadata, checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum MetadataPlace {
    /// A restart begins a new cluster.
    #[default]
    Nowhere,
    /// A directory on this machine.
    File(PathBuf),
    Etcd(EtcdConfig),
}

/// How to reach etcd.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdConfig {
    /// `http://host:port` or `https://host:port`, tried in turn.
    pub urls: Vec<String>,
    /// What the keys of this cluster begin with; ends with `/`.
    pub prefix: String,
    /// None: etcd asks for none.
    pub credential: Option<Credential>,
    pub tls: EtcdTls,
    /// Between two looks of a coordinator that stands by, should etcd tell it nothing.
    pub poll: Duration,
}

/// Files in PEM.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EtcdTls {
    /// Who signed etcd's certificate; none: one of the well-known authorities.
    pub ca: Option<PathBuf>,
    /// The certificate that this process shows, and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// What the keys begin with when nothing is said.
pub const METADATA_PREFIX_DEFAULT: &str = "/shorttail/";

/// Seconds between two looks when nothing is said: a small part of what passes anyway until a dead leader's lease ends.
pub const METADATA_POLL_S_DEFAULT: u64 = 2;

/// `file:DIR` or `etcd:URL,URL...`
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetadataSpec {
    File(PathBuf),
    Etcd(Vec<String>),
}

impl FromStr for MetadataSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("file", dir)) if !dir.is_empty() => Ok(MetadataSpec::File(PathBuf::from(dir))),
            Some(("etcd", urls)) => parse_urls(urls).map(MetadataSpec::Etcd),
            _ => Err(format!("{text:?} is neither file:DIR nor etcd:URL,URL...")),
        }
    }
}

fn parse_urls(text: &str) -> Result<Vec<String>, String> {
    let urls: Vec<String> = text.split(',').map(|url| url.trim_end_matches('/').to_owned()).collect();
    if urls.len() > ETCD_URL_COUNT_MAX {
        return Err(format!("{} addresses of etcd are more than {ETCD_URL_COUNT_MAX}", urls.len()));
    }
    let is_url = |url: &String| {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        rest.is_some_and(|host| !host.is_empty() && !host.contains(['/', '@', ' ', '?', '#']))
    };
    match urls.iter().find(|url| !is_url(url)) {
        Some(url) => Err(format!("{url:?} is not an address of etcd: write http://host:port or https://host:port")),
        None => Ok(urls),
    }
}

impl fmt::Display for MetadataSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataSpec::File(dir) => write!(f, "file:{}", dir.display()),
            MetadataSpec::Etcd(urls) => write!(f, "etcd:{}", urls.join(",")),
        }
    }
}

by_text!(MetadataSpec);

impl fmt::Display for MetadataPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataPlace::Nowhere => f.write_str("nowhere"),
            MetadataPlace::File(dir) => write!(f, "file:{}", dir.display()),
            MetadataPlace::Etcd(etcd) => write!(f, "etcd:{} {}", etcd.urls.join(","), etcd.prefix),
        }
    }
}

/// What is said of metadata beside the directory; the same of a coordinator and of a whole cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MetadataOptions {
    pub metadata: Option<MetadataSpec>,
    pub metadata_prefix: Option<String>,
    pub metadata_auth_file: Option<PathBuf>,
    pub metadata_tls: Option<String>,
    pub metadata_poll: Option<u64>,
}

impl MetadataOptions {
    /// The place; without a word of it the directory, if there is one.
    ///
    /// # Errors
    /// Names the setting that makes no sense.
    pub fn resolve(self, section: &'static str, dir: Option<&Path>) -> Result<MetadataPlace, ConfigError> {
        let Some(MetadataSpec::Etcd(urls)) = self.metadata else {
            let useless = [
                ("metadata_prefix", self.metadata_prefix.is_some()),
                ("metadata_auth_file", self.metadata_auth_file.is_some()),
                ("metadata_tls", self.metadata_tls.is_some()),
                ("metadata_poll", self.metadata_poll.is_some()),
            ];
            if let Some((key, _)) = useless.into_iter().find(|(_, is_said)| *is_said) {
                return Err(ConfigError::setting(section, key, "is of use with --metadata etcd:... only"));
            }
            return Ok(match (self.metadata, dir) {
                (Some(MetadataSpec::File(dir)), _) => MetadataPlace::File(dir),
                (_, Some(dir)) => MetadataPlace::File(dir.to_owned()),
                (_, None) => MetadataPlace::Nowhere,
            });
        };
        let credentials = self.metadata_auth_file.as_deref().map(read_credentials).transpose()?.unwrap_or_default();
        if credentials.len() > 1 {
            return Err(ConfigError::setting(section, "metadata_auth_file", "has more than one user"));
        }
        // Whoever names certificates wants nobody to listen.
        if self.metadata_tls.is_some() && !urls.iter().any(|url| url.starts_with("https://")) {
            return Err(ConfigError::setting(
                section,
                "metadata_tls",
                "is of use with addresses that begin with https:// only",
            ));
        }
        let poll_s = self.metadata_poll.unwrap_or(METADATA_POLL_S_DEFAULT);
        let prefix = self.metadata_prefix.unwrap_or_else(|| METADATA_PREFIX_DEFAULT.to_owned());
        Ok(MetadataPlace::Etcd(EtcdConfig {
            urls,
            prefix: format!("{}/", prefix.trim_end_matches('/')),
            credential: credentials.into_iter().next(),
            tls: parse_tls(section, self.metadata_tls.as_deref())?,
            poll: Duration::from_secs(within(section, "metadata_poll", poll_s, 1, ETCD_POLL_S_MAX)?),
        }))
    }
}

/// `CA` or `CA,CERT,KEY`; an empty CA: the well-known authorities.
fn parse_tls(section: &'static str, text: Option<&str>) -> Result<EtcdTls, ConfigError> {
    let Some(text) = text else { return Ok(EtcdTls::default()) };
    let path = |text: &str| Some(PathBuf::from(text)).filter(|_| !text.is_empty());
    let mut parts = text.split(',');
    let ca = parts.next().and_then(path);
    match (parts.next().and_then(path), parts.next().and_then(path), parts.next()) {
        (None, None, None) if !text.contains(',') => Ok(EtcdTls { ca, client: None }),
        (Some(certificate), Some(key), None) => Ok(EtcdTls { ca, client: Some((certificate, key)) }),
        _ => Err(ConfigError::setting(section, "metadata_tls", format!("{text:?} is neither CA nor CA,CERT,KEY"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(metadata: &str) -> MetadataOptions {
        MetadataOptions { metadata: Some(metadata.parse().expect("well-formed")), ..MetadataOptions::default() }
    }

    #[test]
    fn a_place_is_a_directory_or_etcd() {
        for text in ["file:/var/lib/shorttail", "etcd:http://a:2379", "etcd:https://a:1,https://[::1]:2"] {
            assert_eq!(text.parse::<MetadataSpec>().expect(text).to_string(), text);
        }
        for text in ["", "file:", "etcd:", "etcd:a:2379", "etcd:http://", "etcd:http://a/v3", "zk:a", "etcd:http://a,"]
        {
            assert!(text.parse::<MetadataSpec>().is_err(), "{text}");
        }
        let many = format!("etcd:{}", vec!["http://a:1"; ETCD_URL_COUNT_MAX + 1].join(","));
        assert!(many.parse::<MetadataSpec>().is_err());
    }

    #[test]
    fn a_directory_alone_is_a_place() {
        let place = |options: MetadataOptions, dir: Option<&str>| options.resolve("up", dir.map(Path::new));
        assert_eq!(place(MetadataOptions::default(), None), Ok(MetadataPlace::Nowhere));
        assert_eq!(place(MetadataOptions::default(), Some("/a")), Ok(MetadataPlace::File("/a".into())));
        assert_eq!(place(options("file:/b"), Some("/a")), Ok(MetadataPlace::File("/b".into())));
        let prefixed = MetadataOptions { metadata_prefix: Some("x".into()), ..options("file:/b") };
        let error = place(prefixed, None).expect_err("of no use").to_string();
        assert!(error.starts_with("--metadata-prefix: is of use with"), "{error}");
    }

    #[test]
    fn etcd_has_a_prefix_and_certificates() {
        let resolve = |options: MetadataOptions| match options.resolve("up", None).expect("sensible") {
            MetadataPlace::Etcd(etcd) => etcd,
            other => panic!("{other:?}"),
        };
        let plain = resolve(options("etcd:http://a:1/"));
        assert_eq!((plain.urls, plain.prefix.as_str()), (vec!["http://a:1".to_owned()], METADATA_PREFIX_DEFAULT));
        assert_eq!(plain.poll, Duration::from_secs(METADATA_POLL_S_DEFAULT));
        let said = MetadataOptions {
            metadata_prefix: Some("/blue".into()),
            metadata_tls: Some("ca.pem,cert.pem,key.pem".into()),
            ..options("etcd:https://a:1")
        };
        let said = resolve(said);
        assert_eq!(said.prefix, "/blue/");
        let client = Some(("cert.pem".into(), "key.pem".into()));
        assert_eq!(said.tls, EtcdTls { ca: Some("ca.pem".into()), client });
        for (metadata_poll, is_sensible) in
            [(0, false), (1, true), (ETCD_POLL_S_MAX, true), (ETCD_POLL_S_MAX + 1, false)]
        {
            let options = MetadataOptions { metadata_poll: Some(metadata_poll), ..options("etcd:http://a:1") };
            assert_eq!(options.resolve("up", None).is_ok(), is_sensible, "{metadata_poll}");
        }
        for (metadata, is_sensible) in [("etcd:http://a:1", false), ("etcd:http://a:1,https://b:1", true)] {
            let options = MetadataOptions { metadata_tls: Some("ca.pem".into()), ..options(metadata) };
            assert_eq!(options.resolve("up", None).is_ok(), is_sensible, "{metadata}");
        }
        for text in ["a,b", "a,,", "a,b,c,d", "a,b,"] {
            assert!(parse_tls("up", Some(text)).is_err(), "{text}");
        }
    }
}
