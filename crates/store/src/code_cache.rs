//! The codes in use, made once.

use shorttail_codes::Code;
use shorttail_wire::node::Refusal;

use crate::limits::CODES_MAX;

/// Reed-Solomon codes by (data count, parity count).
#[derive(Debug, Default)]
pub(crate) struct CodeCache {
    codes: Vec<((u8, u8), Code)>,
}

impl CodeCache {
    /// # Errors
    /// `Invalid`: there is no such code.
    pub fn get(&mut self, data_count: u8, parity_count: u8) -> Result<Code, Refusal> {
        let shape = (data_count, parity_count);
        if let Some((_, code)) = self.codes.iter().find(|(key, _)| *key == shape) {
            return Ok(code.clone());
        }
        let code = Code::reed_solomon(usize::from(data_count), usize::from(parity_count));
        let code = code.map_err(|_| Refusal::Invalid)?;
        if self.codes.len() == CODES_MAX {
            // Open chunks keep their own hold on a code that goes.
            self.codes.remove(0);
        }
        self.codes.push((shape, code.clone()));
        Ok(code)
    }
}
