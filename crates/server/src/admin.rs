//! The admin port: status as JSON, health, metrics for Prometheus, and a page for people.
//!
//! It runs on a thread of its own with a small tokio runtime, only in the coordinator's process, and asks the
//! coordinator's loop for the status of the moment.
//!
//! Must not know: the coordinator's machine.

mod metrics;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Json, Response};
use axum::routing::get;

use crate::coordinator::StatusReader;

/// The page: no assets from elsewhere.
const PAGE: &str = include_str!("admin/page.html");

/// Listens, and serves on a thread of its own until the process ends. Returns where it really listens.
///
/// # Errors
/// When the address cannot be listened on.
pub fn start(address: SocketAddr, reader: StatusReader) -> anyhow::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(address);
    let listener = listener.with_context(|| format!("cannot listen on {address} for the admin port"))?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let serve = move || {
        if let Err(error) = serve(listener, reader) {
            tracing::error!(%error, "the admin port is gone");
        }
    };
    std::thread::Builder::new().name("admin".into()).spawn(serve).context("cannot start the admin thread")?;
    Ok(bound)
}

fn serve(listener: std::net::TcpListener, reader: StatusReader) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, router(reader)).await.context("serving stopped")
    })
}

fn router(reader: StatusReader) -> Router {
    Router::new()
        .route("/", get(|| async { Html(PAGE) }))
        .route("/status", get(status))
        .route("/health", get(health))
        .route("/metrics", get(prometheus))
        .with_state(reader)
}

async fn status(State(reader): State<StatusReader>) -> Response {
    match reader.read() {
        Some(status) => Json(status).into_response(),
        None => no_answer(),
    }
}

/// 200 while clients are served, 503 otherwise; for load balancers.
async fn health(State(reader): State<StatusReader>) -> Response {
    let serving = reader.read().is_some_and(|status| status.gateways.iter().any(|gateway| gateway.serving));
    match serving {
        true => (StatusCode::OK, "serving\n").into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not serving\n").into_response(),
    }
}

async fn prometheus(State(reader): State<StatusReader>) -> Response {
    match reader.read() {
        Some(status) => {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], metrics::text(&status)).into_response()
        }
        None => no_answer(),
    }
}

fn no_answer() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the coordinator does not answer\n").into_response()
}
