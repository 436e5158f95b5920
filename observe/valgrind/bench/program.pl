my %h; my @a;
for (1..400000) { $h{$_ % 20011} .= "x$_"; push @a, "k".($_ * 7919 % 1000003); }
@a = sort @a;
print scalar(keys %h), " $a[5]\n";
