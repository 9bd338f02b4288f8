/* base/owner.h - who may write a file, by what stat() says. */
#ifndef BASE_OWNER_H
#define BASE_OWNER_H
#include <stdbool.h>
#include <sys/stat.h>

/* May a group write that is not the owner's own? Debian gives each user a group of the same number; root's is root. */
static inline bool owner_group_writes(const struct stat *st)
{
    return (st->st_mode & S_IWGRP) != 0 && st->st_gid != 0 && (uid_t)st->st_gid != st->st_uid;
}

/* Could somebody else than the owner write to it? */
static inline bool owner_others_write(const struct stat *st)
{
    return (st->st_mode & S_IWOTH) != 0 || owner_group_writes(st);
}
#endif
