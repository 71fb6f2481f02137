/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_plot: a picture of a simulation: what was found, what was moved in vain and what it was good for, over time.
 *
 * Owner   the one thread of the simulator
 */
#pragma once

struct sim_result;

/* Write an SVG to @path, in place of what is there. 0 or -errno. @title: the scenario's, or "". */
int sim_plot_write(const struct sim_result *result, const char *title, const char *path);
