/* base/owner.h - who may write to a file, from its struct stat. */
#ifndef BASE_OWNER_H
#define BASE_OWNER_H
#include <stdbool.h>
#include <sys/stat.h>

/* Can a group other than the owner's private one write? Debian gives each user a group of the same number. */
static inline bool owner_group_writes(const struct stat *st)
{
    return (st->st_mode & S_IWGRP) != 0 && st->st_gid != 0 && (uid_t)st->st_gid != st->st_uid;
}

/* Can anyone but the owner write? */
static inline bool owner_others_write(const struct stat *st)
{
    return (st->st_mode & S_IWOTH) != 0 || owner_group_writes(st);
}
#endif
