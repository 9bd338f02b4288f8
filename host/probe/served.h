/* probe/served.h - the calls that the process of an isolated provider carries out for its host. */
#ifndef PROBE_SERVED_H
#define PROBE_SERVED_H
#include "remote/shared.h"

/* Carries out the call of the channel on this thread, and writes its results to the channel; returns its status. */
inlay_status served_call(isolate_channel *channel);
#endif
