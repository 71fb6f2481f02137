/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Of a build without ncurses: there is no screen to be had. */
#include <errno.h>

#include "ctl_screen.h"
#include "print.h"

int ctl_screen_begin(void)
{
	return -ENOSYS;
}

void ctl_screen_end(void)
{
}

void ctl_screen_size(unsigned int *ret_columns, unsigned int *ret_rows)
{
	*ret_columns = PRINT_COLUMNS;
	*ret_rows = PRINT_ROWS;
}

void ctl_screen_draw(const char *text, unsigned int title, const char *hint, bool colour)
{
	(void)text, (void)title, (void)hint, (void)colour;
}

int ctl_screen_key(void)
{
	return CTL_SCREEN_GONE;
}
