//! A clock for the open loop. tokio's timers have a resolution of a millisecond, which is too coarse for ten thousand
//! calls a second, and a loop that polls the time would take the upstream's core.

#[cfg(not(target_os = "linux"))]
pub(crate) use other::Pace;
#[cfg(target_os = "linux")]
pub(crate) use timer::Pace;

#[cfg(target_os = "linux")]
mod timer {
    use std::io::ErrorKind;
    use std::time::{Duration, Instant};

    use anyhow::Result;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::net::unix::pipe::Receiver;

    /// A timer of the kernel that ticks at a constant interval.
    pub(crate) struct Pace {
        timer: Receiver,
        started: Instant,
    }

    impl Pace {
        /// Starts the timer. The first tick is one interval later.
        pub(crate) fn start(interval: Duration) -> Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            let tick = Timespec::try_from(interval)?;
            let started = Instant::now();
            let spec = Itimerspec { it_interval: tick, it_value: tick };
            timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec)?;
            // A timer is read as a pipe is: eight bytes when it has ticked. tokio has no safe type for other
            // descriptors.
            Ok(Self { timer: Receiver::from_owned_fd_unchecked(timer)?, started })
        }

        /// Returns when the timer started.
        pub(crate) fn started(&self) -> Instant {
            self.started
        }

        /// Waits for the next tick and returns how many have passed since the last call.
        pub(crate) async fn ticks(&self) -> Result<u32> {
            loop {
                self.timer.readable().await?;
                let mut count = [0; 8];
                match self.timer.try_read(&mut count) {
                    Ok(_) => return Ok(u32::try_from(u64::from_ne_bytes(count))?),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::time::{Duration, Instant};

    use anyhow::{Result, bail};

    /// The other systems have no such timer.
    pub(crate) enum Pace {}

    impl Pace {
        pub(crate) fn start(_: Duration) -> Result<Self> {
            bail!("the open loop needs a timer of Linux");
        }

        pub(crate) fn started(&self) -> Instant {
            match *self {}
        }

        pub(crate) async fn ticks(&self) -> Result<u32> {
            match *self {}
        }
    }
}
