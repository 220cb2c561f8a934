//! Tier `real`: real models, downloaded by `make test`, against what llama.cpp gives (see `fixtures/README.md`).

mod greedy;
