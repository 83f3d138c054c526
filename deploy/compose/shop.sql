-- The source of deploy/compose.yaml: a shop, and the user of the changefeed and of the first load.
CREATE DATABASE shop CHARACTER SET utf8mb4;
CREATE TABLE shop.customers (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40) NOT NULL, tier VARCHAR(10));
CREATE TABLE shop.orders (
    id BIGINT PRIMARY KEY AUTO_INCREMENT,
    customer_id INT NOT NULL,
    total DECIMAL(10, 2) NOT NULL,
    placed DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)
);
INSERT INTO shop.customers (name, tier) VALUES ('Ada', 'gold'), ('Grace', 'gold'), ('Edsger', 'silver');
INSERT INTO shop.orders (customer_id, total) VALUES (1, 20.00), (1, 12.50), (2, 99.90), (3, 5.25);
CREATE USER cdc@'%' IDENTIFIED BY 'tutorial';
GRANT REPLICATION SLAVE, BINLOG MONITOR, SELECT, PROCESS ON *.* TO cdc@'%';
