//! The admin port: status as JSON, health, metrics for Prometheus, a page for people, orders to be faulty, changes of
//! policy, hand-overs, nodes that leave.
//!
//! It runs on a thread of its own with a small tokio runtime. The coordinator's asks the coordinator's loop for the
//! status of the moment; a gateway's, which is off unless asked for, reads what the gateway's cores publish.
//!
//! Must not know: the coordinator's machine, a gateway's engines.

mod metrics;
pub mod status;
#[cfg(test)]
pub(crate) mod tests;
mod visitors;

use std::net::SocketAddr;

use anyhow::Context;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{Html, IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use shorttail_coordinator::Wanted;
use shorttail_policy::Change;
use shorttail_wire::control::{Order, PolicyOrder};

use crate::coordinator::Desk;
use crate::gateway::Window;
use visitors::Visitors;

/// The page: no assets from elsewhere.
const PAGE: &str = include_str!("admin/page.html");

/// An admin port that is bound and not served yet.
pub struct Bound {
    listener: std::net::TcpListener,
    pub address: SocketAddr,
}

impl Bound {
    /// # Errors
    /// When the address cannot be listened on.
    pub fn new(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind(address);
        let listener = listener.with_context(|| format!("cannot listen on {address} for the admin port"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Bound { listener, address })
    }

    /// Serves a coordinator on a thread of its own until the process ends.
    ///
    /// # Errors
    /// When the system starts no more threads.
    pub fn serve_coordinator(self, desk: Desk) -> anyhow::Result<()> {
        self.serve(router(desk))
    }

    /// Serves a gateway on a thread of its own until the process ends.
    ///
    /// # Errors
    /// When the system starts no more threads.
    pub fn serve_gateway(self, gateway: Window) -> anyhow::Result<()> {
        self.serve(gateway_router(gateway))
    }

    fn serve(self, router: Router) -> anyhow::Result<()> {
        let serve = move || {
            if let Err(error) = serve(self.listener, router) {
                tracing::error!(%error, "the admin port is gone");
            }
        };
        std::thread::Builder::new().name("admin".into()).spawn(serve).context("cannot start the admin thread")?;
        Ok(())
    }
}

fn serve(listener: std::net::TcpListener, router: Router) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(Visitors::new(listener), router).await.context("serving stopped")
    })
}

fn gateway_router(gateway: Window) -> Router {
    Router::new()
        .route("/health", get(gateway_health))
        .route("/metrics", get(gateway_metrics))
        .route("/status", get(gateway_status))
        .with_state(gateway)
}

async fn gateway_health(State(gateway): State<Window>) -> Response {
    match gateway.look() {
        Ok(gateway) if gateway.is_draining() => {
            (StatusCode::SERVICE_UNAVAILABLE, "draining: send clients to another gateway\n").into_response()
        }
        Ok(gateway) => health_answer(gateway.status().serving),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not serving: {why}\n")).into_response(),
    }
}

async fn gateway_metrics(State(gateway): State<Window>) -> Response {
    metrics_answer(match gateway.look() {
        Ok(gateway) => metrics::of_gateway(gateway.id, &gateway.status(), &gateway.counters()),
        Err(_) => metrics::of_stranger(),
    })
}

async fn gateway_status(State(gateway): State<Window>) -> Response {
    match gateway.look() {
        Ok(gateway) => Json(gateway.status()).into_response(),
        // Zeros would be read as what is stored.
        Err(why) => {
            let told = serde_json::json!({ "serving": false, "why": why });
            (StatusCode::SERVICE_UNAVAILABLE, Json(told)).into_response()
        }
    }
}

fn router(desk: Desk) -> Router {
    let orders = Router::new()
        .route("/chaos", post(chaos))
        .route("/policy", post(policy))
        .route("/drain", post(drain))
        .route("/remove", post(remove))
        .route("/acknowledge", post(acknowledge))
        .layer(from_fn(refuse_pages));
    Router::new()
        .route("/", get(|| async { Html(PAGE) }))
        .route("/status", get(status_answer))
        .route("/health", get(health))
        .route("/metrics", get(prometheus))
        .merge(orders)
        .with_state(desk)
}

/// No page gives orders. That they are JSON keeps out those of other sites, but not one whose own name was made to lead
/// here: of that one a browser tells that a page asks.
async fn refuse_pages(request: Request, next: Next) -> Response {
    if request.headers().contains_key(header::ORIGIN) {
        let refusal = "orders are not taken from web pages (the request has an Origin header)\n";
        return (StatusCode::FORBIDDEN, refusal).into_response();
    }
    next.run(request).await
}

async fn status_answer(State(desk): State<Desk>) -> Response {
    match desk.status().map(|status| status::to_json(&status)) {
        Some(Ok(json)) => Json(json).into_response(),
        Some(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        None => no_answer(),
    }
}

/// 200 while clients are served, 503 otherwise; for load balancers.
async fn health(State(desk): State<Desk>) -> Response {
    let serving = desk.status().is_some_and(|status| status.gateways.iter().any(|gateway| gateway.serving));
    health_answer(serving)
}

fn health_answer(serving: bool) -> Response {
    match serving {
        true => (StatusCode::OK, "serving\n").into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not serving\n").into_response(),
    }
}

async fn prometheus(State(desk): State<Desk>) -> Response {
    match desk.status().zip(desk.reports()) {
        Some((status, reports)) => metrics_answer(metrics::of_cluster(&status, &reports)),
        None => no_answer(),
    }
}

fn metrics_answer(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// Orders nodes to be faulty on purpose.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChaosRequest {
    /// Which; none: all that are alive.
    pub nodes: Option<Vec<u16>>,
    pub order: shorttail_chaos::ChaosOrder,
}

/// Changes policies, at all gateways.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRequest {
    /// Which; none: all.
    pub partition: Option<u16>,
    pub change: Change,
}

/// Lets a gateway hand over all that it owns, or a node be emptied; or not any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DrainRequest {
    Gateway(u16),
    Node(u16),
    /// The gateway is to own something again.
    CancelGateway(u16),
    /// The node is not to be emptied any more.
    CancelNode(u16),
}

/// Takes a node out of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveRequest {
    pub node: u16,
    /// Whatever it holds.
    pub lost: bool,
}

/// What the operator knows, and is not to be told any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum AcknowledgeRequest {
    Losses,
}

/// What became of the order of one member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OrderOutcome {
    /// A node's number, or a gateway's.
    pub member: u16,
    pub is_done: bool,
    /// What was done, or why it was not.
    pub text: String,
}

/// The body must be declared as JSON, which no page of another site may send.
async fn chaos(State(desk): State<Desk>, Json(request): Json<ChaosRequest>) -> Response {
    let alive = |desk: &Desk| {
        let alive = desk.status()?.nodes.into_iter().filter(|node| node.state.is_alive());
        Some(alive.map(|node| node.id).collect())
    };
    let nodes = move |desk: &Desk| request.nodes.or_else(|| alive(desk));
    order(desk, nodes, Wanted::Member(Order::Chaos(request.order))).await
}

/// As with [`chaos`], it must be JSON.
async fn policy(State(desk): State<Desk>, Json(request): Json<PolicyRequest>) -> Response {
    let gateways = |desk: &Desk| {
        let alive = desk.status()?.gateways.into_iter().filter(|gateway| gateway.state.is_alive());
        Some(alive.map(|gateway| gateway.id).collect())
    };
    let PolicyRequest { partition, change } = request;
    order(desk, gateways, Wanted::Member(Order::Policy(PolicyOrder { partition, change }))).await
}

/// As with [`chaos`], it must be JSON.
async fn drain(State(desk): State<Desk>, Json(request): Json<DrainRequest>) -> Response {
    let (member, wanted) = match request {
        DrainRequest::Gateway(gateway) => (gateway, Wanted::DrainGateway { cancel: false }),
        DrainRequest::CancelGateway(gateway) => (gateway, Wanted::DrainGateway { cancel: true }),
        DrainRequest::Node(node) => (node, Wanted::DrainNode { cancel: false }),
        DrainRequest::CancelNode(node) => (node, Wanted::DrainNode { cancel: true }),
    };
    order_one(desk, member, wanted).await
}

/// As with [`chaos`], it must be JSON.
async fn remove(State(desk): State<Desk>, Json(request): Json<RemoveRequest>) -> Response {
    order_one(desk, request.node, Wanted::RemoveNode { lost: request.lost }).await
}

/// As with [`chaos`], it must be JSON.
async fn acknowledge(State(desk): State<Desk>, Json(request): Json<AcknowledgeRequest>) -> Response {
    let AcknowledgeRequest::Losses = request;
    // No member is asked; an order is answered with the number of one.
    order_one(desk, 0, Wanted::AcknowledgeLosses).await
}

async fn order_one(desk: Desk, member: u16, wanted: Wanted) -> Response {
    order(desk, move |_| Some(vec![member]), wanted).await
}

/// Has something done to these members, or by them; `None`: the coordinator does not answer.
async fn order(
    desk: Desk,
    members: impl FnOnce(&Desk) -> Option<Vec<u16>> + Send + 'static,
    wanted: Wanted,
) -> Response {
    let outcomes = beside(move || {
        let members = members(&desk)?;
        let outcomes = desk.order(members.clone(), wanted).into_iter().zip(members);
        let outcomes = outcomes.map(|(outcome, member)| {
            let is_done = outcome.is_ok();
            OrderOutcome { member, is_done, text: outcome.unwrap_or_else(|problem| problem) }
        });
        Some(outcomes.collect::<Vec<_>>())
    });
    outcomes.await.flatten().map_or_else(no_answer, |outcomes| Json(outcomes).into_response())
}

/// Does what may take its time on a thread of its own, as others ask meanwhile. `None`: the system starts none now.
async fn beside<A: Send + 'static>(work: impl FnOnce() -> A + Send + 'static) -> Option<A> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    // Whoever asked may be gone.
    let run = move || _ = done.send(work());
    let started = std::thread::Builder::new().name("order".into()).spawn(run);
    if let Err(error) = started {
        tracing::warn!(%error, "no thread is left to give an order");
    }
    outcome.await.ok()
}

fn no_answer() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the coordinator does not answer\n").into_response()
}
