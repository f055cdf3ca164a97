//! Connections of those who ask at the admin port: so many at once, and none that stays without a word.
//!
//! Anybody may connect. Without a bound they would take the files that clients and nodes need; without an end of those
//! that say nothing, a few would keep everybody out.
//!
//! Must not know: what is asked.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

use crate::net::{Accepting, OtherEnd};

/// Who asks at once. Others wait with the system.
pub const VISITORS_MAX: usize = 64;

/// One that neither says nor takes anything for so long is let go: longer than any order takes.
pub const QUIET_MAX: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 30 });

/// Until it is tried again to accept somebody.
const AGAIN: Duration = Duration::from_millis(100);

pub struct Visitors {
    listener: Accepting<TcpListener>,
    places: Arc<Semaphore>,
    began: Instant,
}

/// Somebody who asks.
pub struct Visitor {
    stream: TcpStream,
    quiet: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Visitors {
    pub fn new(listener: TcpListener) -> Self {
        Visitors {
            listener: Accepting::new(listener, "a visitor of the admin port"),
            places: Arc::new(Semaphore::new(VISITORS_MAX)),
            began: Instant::now(),
        }
    }
}

impl Listener for Visitors {
    type Io = Visitor;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Visitor, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("places are never closed");
        loop {
            match self.listener.listener.accept().await {
                Ok((stream, from)) => {
                    OtherEnd::Client.watch(&stream);
                    return (Visitor { stream, quiet: Box::pin(sleep(QUIET_MAX)), _place: place }, from);
                }
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(error) => {
                    let now_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
                    self.listener.tell(now_us, &error);
                    sleep(AGAIN).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.listener.local_addr()
    }
}

impl Visitor {
    /// Something was done, or it is waited for, until that has lasted too long.
    fn note<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.quiet.as_mut().reset(Instant::now() + QUIET_MAX);
            return done;
        }
        ready!(self.quiet.as_mut().poll(context));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Visitor {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let visitor = self.get_mut();
        let done = Pin::new(&mut visitor.stream).poll_read(context, buffer);
        visitor.note(context, done)
    }
}

impl AsyncWrite for Visitor {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let visitor = self.get_mut();
        let done = Pin::new(&mut visitor.stream).poll_write(context, bytes);
        visitor.note(context, done)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
