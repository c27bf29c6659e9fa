//! What the migrations make.

use super::Backend;

/// The tables, besides `idem_schema`.
pub(crate) const TABLES: [&str; 7] = [
    "idem_keys",
    "idem_operations",
    "idem_audit",
    "idem_outbox",
    "idem_outbox_lanes",
    "idem_outbox_relays",
    "idem_inbox",
];

/// All of a backend's migrations as one script, for teams that run their own.
pub(crate) fn schema<DB: Backend>() -> String {
    let mut script = String::new();
    for (version, migration) in (1..).zip(DB::MIGRATIONS) {
        script.push_str(&format!(
            "-- idem schema, version {version}\n{}\n\n",
            migration.trim()
        ));
    }
    script.push_str(&format!(
        "INSERT INTO idem_schema (version) VALUES ({});\n",
        DB::MIGRATIONS.len()
    ));
    script
}
