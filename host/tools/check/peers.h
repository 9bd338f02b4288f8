/* check/peers.h - runs a case on another provider, for the expected results. */
#ifndef CHECK_PEERS_H
#define CHECK_PEERS_H
#include "check/harness.h"

/* Runs the case on the first provider of fixture->peers that supports it. False: none; *out is then empty. */
bool peers_run(struct check *check, const struct fixture *fixture, const case_instance *built, const op_case *entry,
               harness_result *out);
#endif
