/* exec/loop/room.h - room on a device that has none left. */
#ifndef EXEC_ROOM_H
#define EXEC_ROOM_H
#include "exec/run/run.h"

/* Gives back what the runner and those below it keep on devices for later runs; `all`: and takes home what this run
 * holds for steps to come. idle: none of them runs. */
void stay_make_room(struct runner *runner, bool idle, bool all);
#endif
