//! The rules of the protocol that can be left out one by one.

/// A rule that keeps an effect from taking place twice, or an operation from being lost.
///
/// A mutant is the protocol without one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Guard {
    /// Every write of an attempt asks whether the record is still this attempt's, in the same commit.
    Fence,
    /// The fence tells a record from an earlier one of the same key: attempt 1 of a key that was released and claimed
    /// again isn't attempt 1 of the first claim.
    FenceOutlivesRelease,
    /// Parking counts as a new attempt, so that the parked attempt's owner, if it lives, is fenced out.
    ParkingFences,
    /// An expired lease permits to take over, not to call: what the step left behind decides whether to call.
    LeasePermitsNoCall,
    /// The downstream key is the same on every attempt.
    KeyWithoutAttempt,
    /// `Absent` permits a call only when no earlier call can still be under way.
    AbsentAfterLimit,
    /// That limit counts from the intent of the last call, not from the first one.
    LimitFromLastCall,
    /// An attempt looks at its clock before it sends: no request leaves once its intent is older than the limit.
    SendWithinLimit,
    /// The limit has passed when the provider is asked, not only when its answer is acted on.
    LimitBeforeLookup,
    /// A key is sent again only within its lifetime.
    KeyLifetime,
    /// The lifetime counts from the first intent, not from the last call.
    LifetimeFromFirstIntent,
    /// The lifetime is shortened by the limit, so that the last call arrives within it.
    LifetimeLessLimit,
    /// The intent is committed before the call.
    IntentBeforeCall,
    /// A refusal ends the step only if no earlier call may have taken effect.
    RefusalOfItsOwnCall,
    /// The key is released only while no step has committed.
    ReleaseOnlyUntouched,
    /// A step's result commits together with its writes.
    ResultWithStep,
    /// The sweeper takes completed records only.
    SweepOnlyCompleted,
    /// A completed key that expired is refused, not executed.
    ExpiredKeyRefused,
    /// An operation is parked only when no call of it can still be under way.
    ParkAfterLimit,
    /// After the last permitted attempt, the operation is parked.
    ExhaustedIsParked,
    /// A resolution names the claim and the attempt that the operator looked at, and counts for no other.
    ResolutionNamesAttempt,
}

impl Guard {
    /// Every guard.
    pub const ALL: [Self; 21] = [
        Self::Fence,
        Self::FenceOutlivesRelease,
        Self::ParkingFences,
        Self::LeasePermitsNoCall,
        Self::KeyWithoutAttempt,
        Self::AbsentAfterLimit,
        Self::LimitFromLastCall,
        Self::SendWithinLimit,
        Self::LimitBeforeLookup,
        Self::KeyLifetime,
        Self::LifetimeFromFirstIntent,
        Self::LifetimeLessLimit,
        Self::IntentBeforeCall,
        Self::RefusalOfItsOwnCall,
        Self::ReleaseOnlyUntouched,
        Self::ResultWithStep,
        Self::SweepOnlyCompleted,
        Self::ExpiredKeyRefused,
        Self::ParkAfterLimit,
        Self::ExhaustedIsParked,
        Self::ResolutionNamesAttempt,
    ];
}

/// The guards that a protocol keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guards {
    left_out: u32,
}

impl Guards {
    /// Every guard: the protocol itself.
    pub const fn all() -> Self {
        Self { left_out: 0 }
    }

    /// These guards less one.
    #[must_use]
    pub const fn without(self, guard: Guard) -> Self {
        Self {
            left_out: self.left_out | 1 << guard as u8,
        }
    }

    /// Whether this guard is kept.
    pub const fn keep(self, guard: Guard) -> bool {
        self.left_out & (1 << guard as u8) == 0
    }
}
