// The program of a pod's sandbox, built by `cargo xtask e2e`.
module tamis.test/e2e/pause

go 1.25.0
