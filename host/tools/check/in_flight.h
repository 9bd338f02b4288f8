/* check/in_flight.h - runs of an asynchronous provider that are in flight at the same time. */
#ifndef CHECK_IN_FLIGHT_H
#define CHECK_IN_FLIGHT_H
#include "check/harness.h"

/* Submits runs of a compiled case with different elements and priorities. The first run waits for a fence that is
 * signalled after all are submitted, and each other run waits for the one before it. Writes a FAIL line and returns
 * false if a run signals too early or never, or has a wrong result. */
bool check_in_flight(const struct harness *harness);
#endif
