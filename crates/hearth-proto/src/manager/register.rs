//! A life of a file begins when its registrar names the node that is to manage it.
//!
//! As a rule the first opener has just been named, and nobody is asked again. Others can have been told so by a registrar
//! that is gone since: then there may be another manager, or nodes that read the store because they found none
//! (MANAGER-8).

use super::Seat;
use super::control::Control;
use crate::errno::{EHOSTDOWN, ESTALE};
use crate::guard::Guard;
use crate::msg::Body;
use crate::placement;

impl Seat<'_, '_> {
    /// True for a file whose life has not begun and may not yet.
    pub(super) fn lacks_name(&self) -> bool {
        let config = self.ctx.config;
        let begins = !self.file.has_begun() && !self.named.contains(&self.id);
        begins && config.has_replicas() && config.keeps(Guard::BornRegistered)
    }

    /// Asks who manages the file.
    pub(super) fn register(&mut self) {
        let registrar = placement::registrar_of(self.ctx.config, self.id);
        self.file.control = Some(Control::Registering {
            awaiting: self.order([registrar], &Body::Whois),
            named: false,
        });
    }

    /// The answer may be one of a registrar that is gone.
    pub(super) fn register_anew(&mut self) {
        if let Some(Control::Registering { .. }) = self.file.control {
            self.register();
        }
    }

    /// The registrar has answered, or is gone. A node that asked the wrong node is refused, and asks anew.
    pub(super) fn registered(&mut self, named: bool) {
        if named {
            self.named.insert(self.id);
            return;
        }
        for ask in core::mem::take(&mut self.file.queue) {
            match ask.body {
                Body::Open { .. } => self.fail(&ask, ESTALE),
                Body::Truncate(_) => self.fail(&ask, EHOSTDOWN),
                _ => self.file.queue.push_back(ask),
            }
        }
    }
}
