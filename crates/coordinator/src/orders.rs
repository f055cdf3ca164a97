//! Orders of the operator: to be faulty on purpose, passed on to nodes that allow it; changes of policy, passed on to
//! gateways; to drain a member, to take a node out and to acknowledge losses, done here; and what came of them.
//!
//! ```text
//! driver --Input::Order(ticket)--> check --Send--> member --Obeyed--> Output::Answer(ticket)
//!                                    |                '--gone, or late--^
//!                                    '--no, or done here----------------^
//! ```
//!
//! Every order is answered exactly once. Of one that is passed on nothing is kept: which faults a node has, and which
//! policies a gateway, it says itself.

use shorttail_units::Now;
use shorttail_wire::control::{FromCoordinator, Order, PolicyOrder};

use crate::coordinator::{ConnectionId, Coordinator, Output};
use crate::limits::{ORDER_WITHIN_MS, ORDERS_MAX};

/// What an operator orders.
#[derive(Clone, PartialEq, Debug)]
pub enum Wanted {
    /// A member is to do something: it is sent this.
    Member(Order),
    /// A gateway is to hand over all that it owns, or not any more.
    DrainGateway { cancel: bool },
    /// A node is to be emptied, or not any more.
    DrainNode { cancel: bool },
    /// A node is taken out of the cluster; `lost`: whatever it holds.
    RemoveNode { lost: bool },
    /// Losses that are remembered need not be told any more; of no member.
    AcknowledgeLosses,
}

/// An order that its member has not answered.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// Names it to the driver.
    ticket: u64,
    connection: ConnectionId,
    deadline_us: u64,
    is_kill: bool,
}

fn late_words() -> String {
    format!(
        "it did not answer within {ORDER_WITHIN_MS} ms; it may obey yet: look with `shorttail chaos show` or `shorttail \
         policy show`"
    )
}

impl Coordinator {
    pub(crate) fn handle_order(&mut self, now: Now, ticket: u64, member: u16, wanted: Wanted) {
        let outcome = match wanted {
            Wanted::Member(order) => match self.admit_order(member, &order) {
                Ok(connection) => return self.pass_on(now, ticket, connection, order),
                Err(problem) => Err(problem),
            },
            Wanted::DrainGateway { cancel } => self.drain_gateway(member, cancel),
            Wanted::DrainNode { cancel } => self.drain_node(member, cancel),
            Wanted::RemoveNode { lost } => self.remove_node(now, member, lost),
            Wanted::AcknowledgeLosses => self.acknowledge_losses(),
        };
        self.answer(ticket, outcome);
    }

    fn pass_on(&mut self, now: Now, ticket: u64, connection: ConnectionId, order: Order) {
        let number = self.order_number_next;
        self.order_number_next += 1;
        let deadline_us = now.mono_us.saturating_add(ORDER_WITHIN_MS * 1000);
        let is_kill = order == Order::Chaos(shorttail_chaos::ChaosOrder::Kill);
        self.orders.insert(number, Pending { ticket, connection, deadline_us, is_kill });
        self.send(connection, FromCoordinator::Order { number, order: Box::new(order) });
    }

    /// The connection of the member that is to obey.
    fn admit_order(&self, member: u16, order: &Order) -> Result<ConnectionId, String> {
        let connection = match order {
            Order::Chaos(order) => self.admit_chaos(member, order)?,
            Order::Policy(order) => self.admit_policy(member, order)?,
        };
        if self.orders.len() >= ORDERS_MAX {
            return Err(format!("{ORDERS_MAX} orders are under way already"));
        }
        Ok(connection)
    }

    fn admit_chaos(&self, id: u16, order: &shorttail_chaos::ChaosOrder) -> Result<ConnectionId, String> {
        if !self.settings.allow_chaos {
            return Err("the cluster was not started with --allow-chaos".into());
        }
        order.check().map_err(|error| error.to_string())?;
        let node = self.nodes.get(&id).ok_or_else(|| format!("there is no node {id}"))?;
        let connection = node.presence.connection;
        let connection = connection.ok_or_else(|| format!("node {id} is {}", node.presence.state.name()))?;
        if !node.allows_chaos {
            return Err(format!("node {id} was not started with --allow-chaos"));
        }
        Ok(connection)
    }

    fn admit_policy(&self, id: u16, order: &PolicyOrder) -> Result<ConnectionId, String> {
        if order.change.is_empty() {
            return Err("nothing is to change".into());
        }
        let count = self.settings.partition_count;
        if let Some(partition) = order.partition.filter(|&partition| partition >= count) {
            return Err(format!("there is no partition {partition}: they are 0 to {}", count - 1));
        }
        let gateway = self.gateways.get(&id).ok_or_else(|| format!("there is no gateway {id}"))?;
        gateway.presence.connection.ok_or_else(|| format!("gateway {id} is {}", gateway.presence.state.name()))
    }

    /// A member said what became of an order; of one that is not its own, or late, nothing is known any more.
    pub(crate) fn handle_obeyed(&mut self, connection: ConnectionId, number: u64, outcome: Result<String, String>) {
        if self.orders.get(&number).is_some_and(|pending| pending.connection == connection) {
            let pending = self.orders.remove(&number).expect("looked up");
            self.answer(pending.ticket, outcome);
        }
    }

    /// A connection is gone, and with it who was to answer; one that was to be killed obeyed.
    pub(crate) fn end_orders_of(&mut self, connection: ConnectionId) {
        let gone = self.orders.extract_if(.., |_, pending| pending.connection == connection);
        for (_, pending) in gone.collect::<Vec<_>>() {
            let outcome = if pending.is_kill { Ok("killed".into()) } else { Err("it went away".into()) };
            self.answer(pending.ticket, outcome);
        }
    }

    pub(crate) fn end_late_orders(&mut self, now: Now) {
        let late = self.orders.extract_if(.., |_, pending| pending.deadline_us <= now.mono_us);
        for (_, pending) in late.collect::<Vec<_>>() {
            self.answer(pending.ticket, Err(late_words()));
        }
    }

    pub(crate) fn order_deadline_us(&self) -> Option<u64> {
        self.orders.values().map(|pending| pending.deadline_us).min()
    }

    fn answer(&mut self, ticket: u64, outcome: Result<String, String>) {
        self.put_out(Output::Answer { ticket, outcome });
    }
}
