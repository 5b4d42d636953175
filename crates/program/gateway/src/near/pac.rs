//! The file with which browsers configure themselves, and a page for people.

use std::net::SocketAddr;

/// Path of the file.
pub(crate) const PATH: &str = "/proxy.pac";

/// The media type of the file.
pub(crate) const TYPE: &str = "application/x-ns-proxy-autoconfig";

/// A script that sends everything but local hosts to the proxy at this address. It does not fall back to direct
/// connections, which would bypass the gateway unnoticed.
pub(crate) fn script(proxy: SocketAddr) -> String {
    format!(
        "function FindProxyForURL(url, host) {{\n  \
           if (isPlainHostName(host) || shExpMatch(host, \"*.local\") || shExpMatch(host, \"127.*\") ||\n      \
               host == \"[::1]\" || host == \"::1\") return \"DIRECT\";\n  \
           return \"PROXY {proxy}\";\n}}\n"
    )
}

/// What a person sees who opens the proxy's address in a browser.
pub(crate) fn page(proxy: SocketAddr) -> String {
    format!(
        "This is the near side of an anabranch gateway, a proxy for HTTP and SOCKS5.\n\
         Configure your browser with http://{proxy}{PATH}, or set in a shell:\n\n  \
           export http_proxy=http://{proxy} https_proxy=http://{proxy}\n  \
           export ALL_PROXY=socks5h://{proxy}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_names_the_proxy() {
        let script = script("127.0.0.1:1080".parse().unwrap());
        assert!(script.contains("return \"PROXY 127.0.0.1:1080\";"), "{script}");
        assert!(script.contains("  if (isPlainHostName"), "{script}");
        assert_eq!(script.matches('{').count(), script.matches('}').count());
    }
}
