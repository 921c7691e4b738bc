#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# First process of a user-mode Linux whose root is the host's, read-only: UML_TESTS runs, and its exit status
# is the last line. The kernel has what the host's may lack: flower, multiq.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /run
for module in net/sched/sch_multiq net/sched/sch_ingress net/sched/cls_flower net/sched/act_skbedit \
  net/sched/act_gact net/sched/act_mirred net/sched/act_bpf drivers/net/tun; do
  file=/usr/lib/uml/modules/$(uname -r)/kernel/$module.ko
  [ ! -e "$file" ] || insmod "$file"
done
ip link set lo up
"$UML_TESTS" --use-colour no
echo "uml tests ended with $?"
echo o >/proc/sysrq-trigger
sleep 10
