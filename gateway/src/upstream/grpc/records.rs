//! The wire format of protobuf: the records of a message. Nothing is copied.

/// Levels of groups in a record that is skipped.
const MAX_GROUPS: usize = 32;

/// What is wrong with a message.
pub(super) type Malformed = &'static str;

const CUT: Malformed = "ends within a message";

/// The data of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data<'b> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// Of a length, or a group.
    Bytes(&'b [u8]),
}

/// Reads the records of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Records<'b>(pub(super) &'b [u8]);

impl<'b> Records<'b> {
    /// Returns the next record: the number of the field, and its data.
    ///
    /// # Errors
    /// [`Malformed`].
    pub(super) fn next(&mut self) -> Result<Option<(u32, Data<'b>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (number, wire) = self.tag()?;
        let data = match wire {
            0 => Data::Varint(self.varint()?),
            1 => Data::Fixed64(self.fixed64()?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| CUT)?;
                Data::Bytes(self.take(length)?)
            }
            3 => Data::Bytes(self.group(number)?),
            5 => Data::Fixed32(self.fixed32()?),
            _ => return Err("has a record of an unknown type"),
        };
        Ok(Some((number, data)))
    }

    fn tag(&mut self) -> Result<(u32, u8), Malformed> {
        let tag = u32::try_from(self.varint()?).map_err(|_| "has a field with an invalid number")?;
        let number = tag >> 3;
        if number == 0 {
            return Err("has a field with the number 0");
        }
        Ok((number, (tag & 7) as u8))
    }

    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for index in 0..10 {
            let (&byte, rest) = self.0.split_first().ok_or(CUT)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("has a number of more than ten bytes")
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?.try_into().map_err(|_| CUT)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn fixed32(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.try_into().map_err(|_| CUT)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Returns what is between the marks of a group.
    fn group(&mut self, number: u32) -> Result<&'b [u8], Malformed> {
        let whole = self.0;
        let mut open = vec![number];
        loop {
            let before = self.0;
            let (number, wire) = self.tag()?;
            match wire {
                0 => drop(self.varint()?),
                1 => drop(self.take(8)?),
                2 => {
                    let length = usize::try_from(self.varint()?).map_err(|_| CUT)?;
                    self.take(length)?;
                }
                3 if open.len() < MAX_GROUPS => open.push(number),
                4 if open.pop() == Some(number) => {
                    if open.is_empty() {
                        return Ok(&whole[..whole.len() - before.len()]);
                    }
                }
                5 => drop(self.take(4)?),
                _ => return Err("has a group that does not end where it should"),
            }
        }
    }
}
