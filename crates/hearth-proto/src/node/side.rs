//! Which of a node's machines a message is for.

use crate::msg::Body;

/// Which machine a message is for.
pub(super) enum Side {
    Manager,
    Authority,
    Client,
    /// The manager, if it asked, or else the client.
    Asker,
    /// The machine that has copies: the authority if each node is home to itself, or else the client.
    Holder,
    LeaseAsked,
    LeaseOver,
    /// The machine that keeps bytes of homes.
    Replica,
    /// The machine that makes bytes of shards again.
    Shards,
    /// The home whose bytes are kept.
    Keeper,
    /// The machine that has such bytes saved.
    Rescuer,
    /// The part that goes from view to view; not the kernel.
    Member,
    Ping,
    Pong,
}

/// The machine that a message is for.
pub(super) fn side(body: &Body) -> Side {
    match body {
        Body::Whois
        | Body::WhoisEach(_)
        | Body::AskLeave { .. }
        | Body::AwaitLeave(_)
        | Body::Learned(_)
        | Body::AskNames(_)
        | Body::Listed(_)
        | Body::Open { .. }
        | Body::Close { .. }
        | Body::Size { .. }
        | Body::DateIs(_)
        | Body::Extend { .. }
        | Body::Append(_)
        | Body::HomeOf { .. }
        | Body::Detach
        | Body::HasLeft
        | Body::Detached(_)
        | Body::Settle { .. }
        | Body::Laminate(_)
        | Body::Restamp { .. }
        | Body::ForgetOk(_)
        | Body::CutOk(_) => Side::Manager,
        Body::Read { .. }
        | Body::Write { .. }
        | Body::Claim { .. }
        | Body::Scatter { .. }
        | Body::Flush(_)
        | Body::Stage { .. }
        | Body::Apply { .. }
        | Body::Release { .. }
        | Body::Hold { .. }
        | Body::Yield { .. }
        | Body::Cut(_)
        | Body::Resume { .. }
        | Body::Peeked { .. }
        | Body::InvalOk => Side::Authority,
        Body::Return { .. } | Body::PushNo { .. } => Side::Authority,
        Body::Push { .. } => Side::Client,
        Body::WriteOwn { .. } | Body::TakeBack { .. } => Side::Client,
        Body::WriteHere | Body::Elsewhere(_) | Body::Fetch { .. } => Side::Client,
        Body::Peek { .. } => Side::Holder,
        Body::FlushOk(_) | Body::Sealed | Body::Failed(_) | Body::WhoisOk(_) => Side::Asker,
        Body::HandOver(_) => Side::Manager,
        Body::Hand { .. } | Body::Handed { .. } | Body::Inherit { .. } => Side::Authority,
        Body::Truncate(_) | Body::Truncated(_) => Side::Manager,
        Body::Window { .. } | Body::WindowOver(_) => Side::Manager,
        Body::Change | Body::Changed(_) => Side::Manager,
        Body::Copy { .. } | Body::Mark | Body::Trim { .. } => Side::Replica,
        Body::Rescue { .. } | Body::Orphaned { .. } => Side::Replica,
        Body::Shard { .. } | Body::Over { .. } | Body::Gather { .. } => Side::Replica,
        Body::OverIs(_) | Body::Gathered => Side::Shards,
        Body::Kept(_) => Side::Keeper,
        Body::Rescued(_) => Side::Rescuer,
        Body::BankAsk => Side::LeaseAsked,
        Body::BankOverOk => Side::LeaseOver,
        #[rustfmt::skip]
        Body::WhoisEachOk(_) | Body::Leaves(_) | Body::Names { .. } | Body::ChangeGo
          | Body::Collect { .. } | Body::Recall | Body::Date | Body::OpenOk { .. } | Body::SizeIs { .. }
          | Body::ExtendOk(_) | Body::AppendAt(_) | Body::HomeIs { .. } | Body::TruncateGo
          | Body::TruncateOk | Body::WindowOk(_) | Body::WindowGo { .. } | Body::DetachGo
          | Body::SettleOk | Body::LaminateOk | Body::HandedOver | Body::Forget { .. } | Body::Grant { .. }
          | Body::WriteOk | Body::Inval { .. } | Body::BankIs(_) | Body::BankOver { .. }
          | Body::Staged { .. } | Body::Wound { .. } | Body::OldGeneration | Body::Left => Side::Client,
        Body::Reached(_) => Side::Member,
        Body::Ping => Side::Ping,
        Body::Pong => Side::Pong,
    }
}
